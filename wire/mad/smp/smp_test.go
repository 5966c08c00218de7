// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/codec"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// attributes has all attributes of the package and the whole packet, with their lengths.
var attributes = []codec.Row{
	codec.Of[SMP]("SMP", mad.Size),
	codec.Of[NodeInfo]("NodeInfo", 40),
	codec.Of[NodeDescription]("NodeDescription", 64),
	codec.Of[SwitchInfo]("SwitchInfo", 20),
	codec.Of[PortInfo]("PortInfo", 64),
	codec.Of[GUIDInfo]("GUIDInfo", 64),
	codec.Of[PKeyTable]("P_KeyTable", 64),
	codec.Of[SLtoVL]("SLtoVLMappingTable", 8),
	codec.Of[VLArbitration]("VLArbitrationTable", 64),
	codec.Of[LinearTable]("LinearForwardingTable", 64),
	codec.Of[MulticastTable]("MulticastForwardingTable", 64),
	codec.Of[SMInfo]("SMInfo", 21),
}

func TestCodecs(t *testing.T) { codec.Test(t, attributes) }

func TestDirectedRoute(t *testing.T) {
	p := NewDirected(mad.MethodGet, AttrNodeInfo, 0, 7, []uint8{1, 3, 2})
	if ptr, n := p.Hops(); ptr != 0 || n != 3 || !bytes.Equal(p.Path(), []uint8{1, 3, 2}) || p.Initial[0] != 0 {
		t.Errorf("hop %d of %d along %v", ptr, n, p.Path())
	}
	if p.DrSLID != 0xffff || p.DrDLID != 0xffff || p.Returning() {
		t.Errorf("a route from end to end starts with %+v", p.Header)
	}
	p.Header.Status = mad.StatusInvalidField
	p.SetReturning()
	if !p.Returning() || p.Status() != mad.StatusInvalidField || p.Header.Status != 0x801c {
		t.Errorf("status %v on the way back, %#x on the wire", p.Status(), uint16(p.Header.Status))
	}
	// A hop count beyond 63 is on the wire possible, and has no path.
	p.SetHops(1, 64)
	if p.Path() != nil {
		t.Errorf("path of 64 hops: %v", p.Path())
	}
	// A path that is too long is cut at 63.
	p = NewDirected(mad.MethodGet, AttrNodeInfo, 0, 7, make([]uint8, 100))
	if _, n := p.Hops(); n != MaxHops {
		t.Errorf("path of 100 hops has %d", n)
	}
	p = New(mad.MethodGet, AttrNodeInfo, 0, 7)
	if p.Directed() || p.Path() != nil {
		t.Error("a packet that is routed by LIDs has a path")
	}
}

func TestVLCodes(t *testing.T) {
	for code, n := range []int{0, 1, 2, 4, 8, 15} {
		if VLs(uint8(code)) != n || VLCode(n) != uint8(code) {
			t.Errorf("code %d: %d VLs, whose code is %d", code, VLs(uint8(code)), VLCode(n))
		}
	}
	if VLs(6) != 0 || VLs(255) != 0 || VLCode(3) != 0 {
		t.Error("reserved codes have VLs")
	}
}

// FuzzSMP: any bytes decode and encode back.
func FuzzSMP(f *testing.F) {
	for _, a := range []mad.Attribute{AttrNodeInfo, AttrPortInfo, AttrSwitchInfo, mad.AttrNotice} {
		p := NewDirected(mad.MethodGet, a, 1, 2, []uint8{1, 2, 3})
		f.Add(p.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range attributes {
			a.Check(t, b)
		}
	})
}

func TestNames(t *testing.T) {
	for a := range mad.Attribute(0x40) {
		known := a == mad.AttrNotice || a >= AttrNodeDescription && a <= AttrSwitchInfo ||
			a >= AttrGUIDInfo && a <= AttrMulticastTable ||
			a == AttrSMInfo || a == AttrVendorDiag || a == AttrLedInfo
		if named := AttributeName(a)[0] != 'a'; named != known {
			t.Errorf("attribute %#x is %q", uint16(a), AttributeName(a))
		}
	}
	for s, want := range map[SMState]string{SMNotActive: "not active", SMDiscovering: "discovering",
		SMStandby: "standby", SMMaster: "master", 7: "reserved state 7"} {
		if s.String() != want {
			t.Errorf("state %d is %q, want %q", uint8(s), s, want)
		}
	}
	d := NewNodeDescription("a node")
	if d.String() != "a node" {
		t.Errorf("description is %q", d.String())
	}
}
