// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/trace"
)

func TestTCPHeader(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		offset   int // of the TCP header
	}{
		{"192.0.2.1:49152", "192.0.2.2:7000", 20},
		{"[fd09::1]:49152", "[fd09::2]:7000", 40},
	} {
		h := trace.TCP{At: time.Unix(1, 0), Src: netip.MustParseAddrPort(c.src), Dst: netip.MustParseAddrPort(c.dst),
			Seq: 0x01020304, Ack: 0xfffefdfc, Flags: trace.PSH | trace.ACK, Direction: trace.Outbound}
		r := record(t, func(w *trace.Writer) {
			for _, flags := range []trace.TCPFlags{trace.PSH | trace.ACK, trace.SYN} {
				h.Flags = flags
				if err := w.WriteTCP(&h, []byte("abc"), nil, []byte("de")); err != nil {
					t.Fatal(err)
				}
			}
		})
		fixed := []byte{0xc0, 0, 0x1b, 0x58, 1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc}
		for i, tail := range []string{"abcde", "\x02\x04\xff\xff\x01\x03\x03\x0eabcde"} {
			ip := r.packets[i].data
			tcp := ip[c.offset:]
			if !bytes.Equal(tcp[:12], fixed) || string(tcp[20:]) != tail {
				t.Errorf("%s: segment %x", c.src, tcp)
			}
			if want := [2][2]byte{{5 << 4, 0x18}, {7 << 4, 0x02}}[i]; [2]byte(tcp[12:14]) != want {
				t.Errorf("%s: offset and flags %x, want %x", c.src, tcp[12:14], want)
			}
			if got := tcpSum(ip, c.offset); got != 0xffff {
				t.Errorf("%s: checksum: sum %#x, want 0xffff", c.src, got)
			}
		}
		if v4 := r.packets[0].data; c.offset == 20 &&
			(v4[9] != 6 || binary.BigEndian.Uint16(v4[2:]) != 45 || internetSum(v4[:20]) != 0xffff) {
			t.Errorf("IPv4 header %x", v4[:20])
		}
	}
}

// tcpSum is the sum over the pseudo-header and the TCP segment of a packet, which a right checksum
// makes 0xffff.
func tcpSum(ip []byte, offset int) uint16 {
	addresses := ip[offset-8 : offset]
	if offset == 40 {
		addresses = ip[8:40]
	}
	b := append([]byte(nil), addresses...)
	b = append(b, 0, 6)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ip)-offset))
	return internetSum(append(b, ip[offset:]...))
}

// A stream comes out as segments whose numbers follow each other, in both directions.
func TestStream(t *testing.T) {
	local, peer := netip.MustParseAddrPort("192.0.2.1:49152"), netip.MustParseAddrPort("192.0.2.2:7000")
	long := bytes.Repeat([]byte{7}, 150_000)
	for _, dialed := range []bool{true, false} {
		for _, abort := range []bool{false, true} {
			r := record(t, func(w *trace.Writer) {
				s := w.Stream(local, peer, dialed)
				s.Sent([]byte("hel"), nil, []byte("lo"))
				s.Received(long)
				s.Sent([]byte("!"))
				if abort {
					s.Aborted()
				} else {
					s.SentEnd()
					s.ReceivedEnd()
				}
				s.SentEnd() // it has ended
				s.ReceivedEnd()
			})
			var got [2][]byte // sent, received
			var next [2]uint32
			var ended []byte
			for i, p := range r.packets {
				tcp := p.data[20:]
				dir := 0
				if src, _ := netip.AddrFromSlice(p.data[12:16]); src == peer.Addr() {
					dir = 1
				}
				if v, _ := p.option(2); v[0] != byte(2-dir) { // 1 is inbound, 2 outbound
					t.Errorf("packet %d: direction %q", i, v)
				}
				seq, ack, flags := binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:]), tcp[13]
				if seq != next[dir] || flags&0x10 != 0 && ack != next[1-dir] {
					t.Errorf("packet %d: sequence %d acknowledges %d, want %d and %d", i, seq, ack, next[dir],
						next[1-dir])
				}
				if wantSyn := map[int]byte{0: 0x02, 1: 0x12, 2: 0x10}; i < 3 && flags != wantSyn[i] ||
					i == 0 && (dir == 0) != dialed {
					t.Errorf("packet %d, dialed %v: flags %#x, direction %d", i, dialed, flags, dir)
				}
				payload := tcp[tcp[12]>>4*4:]
				got[dir] = append(got[dir], payload...)
				if next[dir] += uint32(len(payload)); flags&0x03 != 0 {
					next[dir]++
				}
				if flags&0x05 != 0 {
					ended = append(ended, flags, byte(dir))
				}
			}
			if string(got[0]) != "hello!" || !bytes.Equal(got[1], long) {
				t.Errorf("sent %q, received %d bytes of %d", got[0], len(got[1]), len(long))
			}
			want := []byte{0x11, 0, 0x11, 1}
			if abort {
				want = []byte{0x14, 0}
			}
			if !bytes.Equal(ended, want) {
				t.Errorf("abort %v: ended by %x, want %x", abort, ended, want)
			}
		}
	}
}
