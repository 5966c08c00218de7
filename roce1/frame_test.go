// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// icrcOf computes the ICRC of a frame from the bytes that section 7.8.1 says: eight of ones for the LRH, the GRH with
// ones for the fields that change on the way, the packet with ones for the byte after the partition key.
func icrcOf(frame []byte) uint32 {
	covered := append(bytes.Repeat([]byte{0xff}, 8), frame[14:len(frame)-4]...)
	grh, bth := covered[8:], covered[48:]
	grh[0] |= 0x0f
	grh[1], grh[2], grh[3], grh[7] = 0xff, 0xff, 0xff, 0xff
	bth[4] = 0xff
	return crc32.ChecksumIEEE(covered)
}

// newFrame returns the frame of a SEND with one packet.
func newFrame(src, dst mac, from, to verbs.GID, payload []byte) []byte {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: ib.DefaultPKey, DestQP: 0x1234, PSN: 7,
		PadCount: ib.PadFor(len(payload))}, Payload: payload}
	packet := p.Append(nil)
	h := ib.GRH{IPVer: 6, TClass: 3, FlowLabel: 0x12345, PayLen: uint16(len(packet) + 4), NxtHdr: ib.GRHNextHeader,
		HopLmt: 9, SGID: from, DGID: to}
	b := append(append([]byte{}, dst[:]...), src[:]...)
	b = binary.BigEndian.AppendUint16(b, EtherType)
	b = append(h.Append(b), packet...)
	b = append(b, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[len(b)-4:], icrcOf(b))
	return b
}

var (
	macA, macB = mac{2, 0, 0, 0, 0, 1}, mac{2, 0, 0, 0, 0, 2}
	gidA, gidB = linkLocal(macA), linkLocal(macB)
)

func TestFrame(t *testing.T) {
	b := newFrame(macA, macB, gidA, gidB, []byte("twelve bytes and one"))
	var f frame
	if !f.decode(append(b[:len(b):len(b)], 0, 0, 0)) { // padding
		t.Fatal("refused")
	}
	if f.src != macA || f.dst != macB || f.sgid() != gidA || f.dgid() != gidB || len(f.packet) != len(b)-headerLen {
		t.Errorf("%+v", f)
	}
	s := newStream(*f.grh)
	if !s.verify(f.packet) {
		t.Error("the ICRC is right")
	}
	for n := range len(b) {
		if f.decode(b[:n]) {
			t.Fatalf("%d of %d bytes are taken", n, len(b))
		}
	}
	// The ICRC covers everything but the fields that routers change.
	free := map[int]byte{14: 0x0f, 15: 0xff, 16: 0xff, 17: 0xff, 21: 0xff, 58: 0xff}
	for i := etherLen; i < len(b); i++ {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			ok := f.decode(c)
			if ok {
				s := newStream(*f.grh)
				ok = s.verify(f.packet)
			}
			if want := free[i]>>bit&1 != 0; ok != want {
				t.Errorf("byte %d, bit %d changed: taken is %v, want %v", i, bit, ok, want)
			}
		}
	}
}

// Packets of one stream may differ in length.
func TestStreamLengths(t *testing.T) {
	var s stream
	for i, n := range []int{4, 1024, 1024, 8, 0, 4} {
		b := newFrame(macA, macB, gidA, gidB, make([]byte, n))
		var f frame
		if !f.decode(b) {
			t.Fatal("refused")
		}
		if i == 0 {
			s = newStream(*f.grh)
		}
		if !s.verify(f.packet) {
			t.Errorf("payload of %d bytes: wrong ICRC", n)
		}
	}
}

func TestMACs(t *testing.T) {
	for _, c := range []struct {
		gid string
		mac mac
		ok  bool
	}{
		{"fe80::fc:ff:fe00:1", mac{2, 0xfc, 0, 0, 0, 1}, true},
		{"fe80::21b:21ff:fe0a:b0c", mac{0, 0x1b, 0x21, 0x0a, 0x0b, 0x0c}, true},
		{"fe80::1", mac{}, false},                   // not made from a MAC
		{"fe80:1::21b:21ff:fe0a:b0c", mac{}, false}, // of no link
		{"2001:db8::21b:21ff:fe0a:b0c", mac{}, false},
		{"::ffff:192.0.2.7", mac{}, false},
		{"ff0e::ffff:ef01:203", mac{0x33, 0x33, 0xef, 1, 2, 3}, true},
		{"ff12:401b:ffff::1", mac{0x33, 0x33, 0, 0, 0, 1}, true},
		{"::ffff:239.1.2.3", mac{0x33, 0x33, 0xef, 1, 2, 3}, true},
	} {
		m, ok := macOf(ib.GIDFromAddr(netip.MustParseAddr(c.gid)))
		if ok != c.ok || ok && m != c.mac {
			t.Errorf("%s: %x, %v; want %x, %v", c.gid, m, ok, c.mac, c.ok)
		}
	}
}

func TestPathMTU(t *testing.T) {
	for mtu, want := range map[int]verbs.MTU{1500: verbs.MTU1024, 9000: verbs.MTU4096, 4200: verbs.MTU4096,
		4183: verbs.MTU2048, 1400: verbs.MTU1024, 576: verbs.MTU256, 65535: verbs.MTU4096} {
		if got := pathMTU(mtu); got != want {
			t.Errorf("%d bytes: %v, want %v", mtu, got, want)
		}
	}
}
