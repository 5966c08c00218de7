// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func FuzzConnData(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	req, rep, _ := capture(f)
	f.Add(req.private)
	f.Add(rep.private)
	f.Add(ConnData{Version: 1, Flags: 3, IOMaps: 255, Target: SGE{Length: 1}, Data: SGE{Length: 1}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again ConnData
		if !c.Decode(b) {
			return
		}
		enc := c.Append(nil)
		if !again.Decode(enc) || again != c {
			t.Fatalf("% x becomes % x", b, enc)
		}
		if s, err := NewStream(small, &c); err == nil {
			var p Post
			for range 10 {
				s.NextControl(&p)
			}
		}
	})
}

// FuzzPeer lets a peer send any messages and write anything to the table. This side's records
// of its own memory stay true.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{}, []byte{}, uint8(0))
	f.Add([]byte{0}, []byte{0}, uint8(0))
	f.Add([]byte{0, 0, 0, 100, 0x80, 0, 1, 0x80, 0xe0, 0, 0, 2}, []byte{1, 2, 3}, uint8(4))
	f.Add([]byte{0xe0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 8, 0}, bytes.Repeat([]byte{1}, 80), uint8(0))
	f.Fuzz(func(t *testing.T, messages, table []byte, mix uint8) {
		x, _ := pair(t, small, small)
		copy(x.table(), table)
		for i := 0; len(messages) >= 4; i++ {
			m := Message(binary.BigEndian.Uint32(messages))
			messages = messages[4:]
			if x.HandleMessage(m, mix&0x80 == 0, x.table()) != nil {
				return
			}
			off, n := x.Readable()
			if off < 0 || n < 0 || off+n > small.RecvBuf || x.recv.avail+x.recv.offered+x.recv.freed != small.RecvBuf {
				t.Fatalf("%d bytes to read at %d: %+v", n, off, x.recv)
			}
			var p Post
			for x.NextControl(&p) {
				x.HandleCompletion(p.ID)
			}
			switch (mix + uint8(i)) % 4 {
			case 0:
				x.Consume(n)
			case 1:
				if off, n := x.Room(); n > 0 {
					if x.Stage(n); !x.SendStaged(&p) || off > small.SendBuf || n > small.SendBuf {
						t.Fatalf("sends %d bytes at %d of the ring", n, off)
					}
				}
			case 2:
				x.HandleCompletion(x.Stream.send.posted)
			case 3:
				if m, ok := x.FindIOMap(x.table(), uint64(i)); ok {
					if _, n := x.MappedRoom(); n > 0 {
						x.WriteMapped(m, uint64(i), 1, &p)
					}
				}
			}
		}
	})
}
