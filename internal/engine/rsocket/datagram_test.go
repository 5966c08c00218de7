// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

func TestDatagramHeaders(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("10.9.0.2:7471"), netip.MustParseAddrPort("[fd09::2]:7471")
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"IPv4", Header{v4}.Append(nil), "04081d2f0a090002"},
		{"IPv6", Header{v6}.Append(nil), "06181d2f00000000fd090000000000000000000000000002"},
		{"UDP IPv4", UDPHeader{UDPData, 0x123456, v4.Addr()}.Append(nil), "5555555504001000001234560a090002"},
		{"UDP IPv6", UDPHeader{UDPCtrl, 0x123456, v6.Addr()}.Append(nil),
			"5555555506071c0000123456fd090000000000000000000000000002"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for n := range c.got {
			var h Header
			var u UDPHeader
			if h.Decode(c.got[:n]) != 0 || u.Decode(c.got[:n]) != 0 {
				t.Errorf("%s: %d bytes decode", c.name, n)
			}
		}
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	v4, v6 := netip.MustParseAddrPort("10.9.0.2:7471"), netip.MustParseAddrPort("[fd09::2]:7471")
	f.Add(Header{v4}.Append(nil))
	f.Add(Header{v6}.Append(nil))
	f.Add(UDPHeader{UDPData, 1, v4.Addr()}.Append(nil))
	f.Add(UDPHeader{UDPCtrl, 1, v6.Addr()}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, h2 Header
		if n := h.Decode(b); n > 0 && (h2.Decode(h.Append(nil)) != n || h2 != h) {
			t.Errorf("% x: %v becomes %v", b, h, h2)
		}
		var u UDPHeader
		if n := u.Decode(b); n > 0 {
			want := bytes.Clone(b[:n])
			want[7], want[8] = 0, 0 // reserved
			if got := u.Append(nil); !bytes.Equal(got, want) {
				t.Errorf("% x becomes % x", want, got)
			}
		}
	})
}

// A header whose version and length do not belong together is none.
func TestDatagramHeadersRefused(t *testing.T) {
	want := UDPHeader{UDPCtrl, 0x123456, netip.MustParseAddr("fd09::2")}
	good := want.Append(nil)
	var got UDPHeader
	if n := got.Decode(good); n != len(good) || got != want {
		t.Fatalf("%d bytes decode as %v", n, got)
	}
	for at, bad := range map[int]byte{0: 0x54, 3: 6, 4: 4, 6: UDPHeaderSize4} {
		b := bytes.Clone(good)
		b[at] = bad
		var u UDPHeader
		if n := u.Decode(b); n != 0 {
			t.Errorf("byte %d is %#x: %d bytes decode as %v", at, bad, n, u)
		}
	}
	for _, b := range [][]byte{{4: 7, 6: UDPHeaderSize6}, {4: 5, 6: UDPHeaderSize4}} {
		b = append(b, make([]byte, 32)...)
		copy(b, good[:4])
		var u UDPHeader
		if n := u.Decode(b); n != 0 {
			t.Errorf("% x: %d bytes decode", b, n)
		}
	}
}
