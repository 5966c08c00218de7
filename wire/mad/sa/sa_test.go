// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/codec"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// record returns the row of an attribute.
func record[T any, P interface {
	*T
	codec.Codec
}](a mad.Attribute) codec.Row {
	return codec.Of[T, P](Name(a), Layout(a).Len())
}

// codecs has everything that the package decodes.
var codecs = []codec.Row{
	codec.Of[Header]("header", HeaderLen), codec.Of[RMPP]("RMPP", RMPPLen),
	codec.Of[InformInfo]("InformInfo", InformInfoLen),
	record[NodeRecord](AttrNodeRecord),
	record[PortInfoRecord](AttrPortInfoRecord),
	record[SLtoVLRecord](AttrSLtoVLRecord),
	record[SwitchInfoRecord](AttrSwitchInfoRecord),
	record[LinearRecord](AttrLinearRecord),
	record[MulticastRecord](AttrMulticastRecord),
	record[SMInfoRecord](AttrSMInfoRecord),
	record[LinkRecord](AttrLinkRecord),
	record[GUIDInfoRecord](AttrGUIDInfoRecord),
	record[ServiceRecord](AttrServiceRecord),
	record[PKeyRecord](AttrPKeyRecord),
	record[PathRecord](AttrPathRecord),
	record[VLArbRecord](AttrVLArbRecord),
	record[MCMemberRecord](AttrMCMemberRecord),
	record[InformInfoRecord](AttrInformInfoRecord),
}

func TestCodecs(t *testing.T) { codec.Test(t, codecs) }

// Components of a layout cover the record's start, and matching one looks at its bits alone.
func TestMatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for a, c := range layouts {
		query := make([]byte, c.Len())
		for i := range query {
			query[i] = byte(rng.Uint32())
		}
		at := 0
		for n, f := range c.list {
			width := f.bits
			if at+width > 8*c.Len() {
				t.Fatalf("%s: %s ends at bit %d", Name(a), f.name, at+width)
			}
			for bit := range 8 * c.Len() {
				record := bytes.Clone(query)
				record[bit/8] ^= 0x80 >> (bit % 8)
				inside := bit >= at && bit < at+width
				if got := c.Match(1<<n, query, record); got == inside {
					t.Fatalf("%s: %s matches: %v, with bit %d changed; it has %d from %d on", Name(a), f.name, got, bit,
						width, at)
				}
			}
			at += width
		}
		if !c.Covers(1<<len(c.list)-1) || c.Covers(1<<len(c.list)) {
			t.Errorf("%s: bits of the mask", Name(a))
		}
	}
	// The last component of each, by rdma-core's numbers of the bits.
	for a, last := range map[mad.Attribute]int{AttrPathRecord: 21, AttrNodeRecord: 14, AttrPortInfoRecord: 57,
		AttrServiceRecord: 36, AttrMCMemberRecord: 17, AttrSMInfoRecord: 6, AttrLinkRecord: 3, AttrInformInfoRecord: 15,
		AttrGUIDInfoRecord: 11, AttrMulticastRecord: 4} {
		if got := len(Layout(a).list) - 1; got != last {
			t.Errorf("%s: the last component is %d, want %d", Name(a), got, last)
		}
	}
	// The names of bits stand for the components of these names.
	for _, c := range []struct {
		attribute mad.Attribute
		bit       uint64
		name      string
	}{
		{AttrPathRecord, PathDGID, "DGID"}, {AttrPathRecord, PathNumbPath, "NumbPath"},
		{AttrPathRecord, PathLife, "PacketLifeTime"}, {AttrMCMemberRecord, MemberMLID, "MLID"},
		{AttrMCMemberRecord, MemberProxyJoin, "ProxyJoin"}, {AttrServiceRecord, ServiceLease, "ServiceLease"},
		{AttrServiceRecord, ServiceName, "ServiceName"},
	} {
		if got := Layout(c.attribute).list[bits.TrailingZeros64(c.bit)].name; got != c.name {
			t.Errorf("bit %#x of a mask of %s stands for %s, want %s", c.bit, Name(c.attribute), got, c.name)
		}
	}
}

func TestText(t *testing.T) {
	for s, want := range map[mad.Status]string{StatusNoRecords: "no records match", StatusDenied: "denied",
		mad.StatusBusy: "busy", 0x0800: "status 0x0800", 0: "OK"} {
		if got := StatusText(s); got != want {
			t.Errorf("status %#x is %q, want %q", uint16(s), got, want)
		}
	}
	if got := Name(0x99); got != "attribute 0x0099" {
		t.Error(got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint16(AttrPathRecord), bytes.Repeat([]byte{0xa5}, mad.Size))
	f.Fuzz(func(t *testing.T, attr uint16, b []byte) {
		for _, c := range codecs {
			c.Check(t, b)
		}
		if c := Layout(mad.Attribute(attr)); c != nil && len(b) >= 8+2*c.Len() {
			c.Match(uint64(b[0])<<32|uint64(b[1])<<8|uint64(b[2]), b[8:], b[8+c.Len():])
		}
	})
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		link smp.PortLink
		code uint8
		mbps int
	}{
		{smp.PortLink{WidthActive: 1, SpeedActive: 1}, 2, 2500},
		{smp.PortLink{WidthActive: 2, SpeedActive: 1}, 3, 10000},
		{smp.PortLink{WidthActive: 2, SpeedActive: 4}, 7, 40000},
		{smp.PortLink{WidthActive: 2, SpeedActive: 4, SpeedExtActive: 1}, 12, 56000},
		{smp.PortLink{WidthActive: 2, SpeedActive: 4, SpeedExtActive: 2}, 16, 100000},
		{smp.PortLink{WidthActive: 2, SpeedExtActive: 4}, 17, 200000},
		{smp.PortLink{WidthActive: 2, SpeedExtActive: 8}, 21, 400000},
		{smp.PortLink{}, 0, 0},
	} {
		if code := RateOf(&c.link); code != c.code || RateMbps(code) != c.mbps {
			t.Errorf("%+v is %d, %d Mb/s; want %d, %d", c.link, code, RateMbps(code), c.code, c.mbps)
		}
	}
	// Codes with several rows mean the same rate.
	seen := map[uint8]int{}
	for _, r := range rates {
		if m, ok := seen[r.code]; ok && m != r.lanes*r.lane {
			t.Errorf("code %d is both %d and %d", r.code, m, r.lanes*r.lane)
		}
		seen[r.code] = r.lanes * r.lane
	}
	if s := (Selected{GreaterThan, 5}); !s.AcceptsRate(3) || s.AcceptsRate(2) {
		t.Error("code 3 is 10 Gb/s and code 5 is 5")
	}
	for _, c := range []struct {
		ask  Selected
		most uint8
		want uint8
	}{
		{Selected{Exactly, 3}, 16, 3},
		{Selected{Exactly, 16}, 3, 0},   // above the most
		{Selected{LessThan, 16}, 17, 9}, // 80 Gb/s is the last below 100
		{Selected{GreaterThan, 3}, 7, 7},
		{Selected{GreaterThan, 7}, 7, 0},
		{Selected{Best, 0}, 7, 7},
	} {
		if got := c.ask.HighestRate(c.most); got != c.want {
			t.Errorf("%+v up to %d: %d (%d Mb/s), want %d", c.ask, c.most, got, RateMbps(got), c.want)
		}
	}
}
