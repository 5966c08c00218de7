// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Any 32 bytes are a message, which encodes to the fields that it uses of them; no other number is.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for o := GetServerFeature; o <= RegisterXferMemory+1; o++ {
		f.Add(Message{Opcode: o, Select: 1, Features: 2, Addr: 3, Length: 4, Key: 5}.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Message
		if ok := m.Decode(b); ok != (len(b) == MessageSize) {
			t.Fatalf("%d bytes: %t", len(b), ok)
		} else if !ok {
			return
		}
		if w := m.Append(nil); !again.Decode(w) || again != m {
			t.Fatalf("%+v, and again %+v", m, again)
		}
	})
}

// A peer sends any messages and claims any lengths, and the program reads as it likes. Readable bytes are within the
// buffer and no more than was claimed; only a half that was read is registered; written data goes to the peer's
// address.
func FuzzPeer(f *testing.F) {
	memory := Message{Opcode: RegisterXferMemory, Addr: 1 << 32, Length: 100, Key: 7}.Append(nil)
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(append([]byte{0}, memory...))
	f.Add([]byte{1, 16, 2, 16, 3, 1, 16, 1, 16, 2, 9})
	f.Add(bytes.Repeat(append([]byte{0}, make([]byte, MessageSize)...), 20))
	f.Fuzz(func(t *testing.T, in []byte) {
		const half = 16
		s := stream{server: true, in: halves{remote: verbs.Remote{Addr: 1000, Key: 1}, size: half}}
		claimed, read := uint64(0), uint64(0)
		var err error
		for err == nil && len(in) > 0 {
			op := in[0]
			switch in = in[1:]; op % 4 {
			case 0:
				n := min(len(in), MessageSize)
				err = s.handleMessage(in[:n])
				in = in[n:]
			case 1:
				n := uint32(op) >> 2
				if len(in) > 0 && op > 250 {
					n, in = uint32(in[0])<<24, in[1:]
				}
				if err = s.in.written(n); err == nil {
					claimed += uint64(n)
				}
			case 2:
				off, n := s.in.readable()
				if off < 0 || n < 0 || off+n > 2*half {
					t.Fatalf("%d bytes readable at %d", n, off)
				}
				k := min(n, int(op>>2))
				s.in.consume(k)
				read += uint64(k)
			case 3:
				if m, due := s.nextMessage(); due && m.Opcode == RegisterXferMemory {
					if off := m.Addr - 1000; off != 0 && off != half || m.Length != half || claimed-read > half {
						t.Fatalf("registers %+v with %d bytes to read", m, claimed-read)
					}
				}
				was, room := s.out, s.out.room()
				if room < 0 || uint64(was.offset)+uint64(room) > uint64(was.length) {
					t.Fatalf("%d bytes have room of %+v", room, was)
				}
				n := min(room, int(op))
				if at := s.out.take(n); at != was.remote.At(uint64(was.offset)) || at.Addr+uint64(n) < at.Addr {
					t.Fatalf("%d bytes go to %v of %+v", n, at, was)
				}
			}
			if claimed-read > 2*half || len(s.answers) > maxAnswers {
				t.Fatalf("%d bytes and %d answers are kept", claimed-read, len(s.answers))
			}
		}
		if err != nil && !errors.Is(err, ErrProtocol) {
			t.Fatal(err)
		}
	})
}
