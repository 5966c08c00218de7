// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/trace"
)

func (f frame) header() *trace.UDP {
	return &trace.UDP{
		At: f.at, Src: f.src, Dst: f.dst,
		ID: f.id, DontFragment: f.df, TTL: f.ttl, TOS: f.tos,
		Direction: trace.Inbound,
	}
}

// Linux's packets come out byte for byte, so their ICRCs verify.
func TestRxeFramesComeOutTheSame(t *testing.T) {
	frames := rxeFrames(t)
	r := record(t, func(w *trace.Writer) {
		for _, f := range frames {
			// In parts, as a sender has them.
			err := w.WriteUDP(f.header(), f.payload[:12], f.payload[12:len(f.payload)-4], f.payload[len(f.payload)-4:])
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	for i, f := range frames {
		got := r.packets[i]
		if !bytes.Equal(got.data, f.ip) {
			t.Errorf("frame %d:\n got %x\nwant %x", i, got.data, f.ip)
		}
		if !icrcOK(got.data) {
			t.Errorf("frame %d: ICRC does not verify", i)
		}
		if !got.at.Equal(f.at) {
			t.Errorf("frame %d: time %v, want %v", i, got.at, f.at)
		}
	}
}

func TestIPv4Header(t *testing.T) {
	h := header4()
	h.ID, h.TTL, h.TOS = 0x1234, 3, 0x69
	r := record(t, func(w *trace.Writer) {
		for _, df := range []bool{false, true} {
			h.DontFragment = df
			if err := w.WriteUDP(h, []byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
	})
	for i, fragment := range []uint16{0, 0x4000} {
		ip := r.packets[i].data
		want := binary.BigEndian.AppendUint16([]byte{0x45, 0x69, 0, 31, 0x12, 0x34}, fragment)
		if !bytes.Equal(ip[:8], want) || ip[8] != 3 || ip[9] != 17 {
			t.Errorf("header %x", ip[:20])
		}
		if got := internetSum(ip[:20]); got != 0xffff {
			t.Errorf("header checksum: sum %#x, want 0xffff", got)
		}
		if got := binary.BigEndian.Uint16(ip[26:]); got != 0 {
			t.Errorf("UDP checksum %#x, want 0: none", got)
		}
		if got := string(ip[28:]); got != "abc" {
			t.Errorf("payload %q", got)
		}
	}
}

func TestIPv6(t *testing.T) {
	h := header4()
	h.Src = netip.MustParseAddrPort("[fd09::1]:49153")
	h.Dst = netip.MustParseAddrPort("[ff02::1:ff00:1%eth0]:4791")
	h.TOS, h.TTL = 0x69, 7
	parts := [][]byte{{1}, {}, {2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}, {12, 13, 14}}
	for n := range len(parts) + 1 {
		r := record(t, func(w *trace.Writer) {
			if err := w.WriteUDP(h, parts[:n]...); err != nil {
				t.Fatal(err)
			}
		})
		ip, payload := r.packets[0].data, bytes.Join(parts[:n], nil)
		head := []byte{0x66, 0x90, 0, 0, 0, byte(8 + len(payload)), 17, 7}
		if !bytes.Equal(ip[:8], head) {
			t.Errorf("header %x, want %x", ip[:8], head)
		}
		if src, _ := netip.AddrFromSlice(ip[8:24]); src != h.Src.Addr() {
			t.Errorf("source %v", src)
		}
		if dst, _ := netip.AddrFromSlice(ip[24:40]); dst != h.Dst.Addr().WithZone("") {
			t.Errorf("destination %v", dst)
		}
		if !bytes.Equal(ip[48:], payload) {
			t.Errorf("payload %x, want %x", ip[48:], payload)
		}
		if got := udpSum(ip); got != 0xffff {
			t.Errorf("%d bytes: UDP checksum: sum %#x, want 0xffff", len(payload), got)
		}
	}
}

// A checksum that comes out as 0 is sent as 0xffff: 0 means that there is none.
func TestIPv6ChecksumZero(t *testing.T) {
	h := header4()
	h.Src, h.Dst = netip.MustParseAddrPort("[::1]:49152"), netip.MustParseAddrPort("[::1]:4791")
	checksum := func(payload []byte) []byte {
		r := record(t, func(w *trace.Writer) {
			if err := w.WriteUDP(h, payload); err != nil {
				t.Fatal(err)
			}
		})
		return r.packets[0].data[46:48]
	}
	// With its own checksum as payload, a datagram sums up to 0xffff.
	if got := checksum(checksum([]byte{0, 0})); !bytes.Equal(got, []byte{0xff, 0xff}) {
		t.Errorf("UDP checksum %x, want ffff", got)
	}
}

// udpSum is the sum over an IPv6 packet's pseudo-header and UDP datagram, which
// a right checksum makes 0xffff.
func udpSum(ip []byte) uint16 {
	b := append([]byte(nil), ip[8:40]...)
	b = append(b, 0, 0, ip[4], ip[5], 0, 0, 0, 17)
	return internetSum(append(b, ip[40:]...))
}

func internetSum(b []byte) uint16 {
	s := 0
	for i := range b {
		s += int(b[i]) << (8 * (1 - i%2))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
