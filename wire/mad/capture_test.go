// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/captured"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A message of any attribute.
type message interface {
	Decode(b []byte) bool
	Append(b []byte) []byte
}

func newMessage(a Attribute) message {
	switch a {
	case AttrREQ:
		return &REQ{}
	case AttrMRA:
		return &MRA{}
	case AttrREJ:
		return &REJ{}
	case AttrREP:
		return &REP{}
	case AttrRTU:
		return &RTU{}
	case AttrDREQ:
		return &DREQ{}
	case AttrDREP:
		return &DREP{}
	case AttrSIDRREQ:
		return &SIDRREQ{}
	case AttrSIDRREP:
		return &SIDRREP{}
	case AttrLAP:
		return &LAP{}
	case AttrAPR:
		return &APR{}
	}
	return nil
}

// allAttributes lists every message that the package knows.
var allAttributes = []Attribute{AttrREQ, AttrMRA, AttrREJ, AttrREP, AttrRTU, AttrDREQ, AttrDREP, AttrSIDRREQ,
	AttrSIDRREP, AttrLAP, AttrAPR}

// A datagram of a capture.
type datagram struct {
	num      int // of the frame, from 1, as Wireshark counts
	src, dst netip.Addr
	bytes    []byte
}

// readDatagrams returns the datagrams that arrive at queue pairs 1 in one of package ib's captures.
func readDatagrams(tb testing.TB, name string) (out []datagram) {
	tb.Helper()
	for _, f := range captured.RoCE(tb, filepath.Join("..", "ib", "testdata", name)) {
		var p ib.Packet
		if err := p.Decode(f.Transport[:len(f.Transport)-ib.ICRCLen]); err != nil {
			tb.Fatalf("%s: frame %d: %v", name, f.Num, err)
		}
		if p.Opcode == ib.UDSendOnly && p.DestQP == ib.QP1 {
			out = append(out, datagram{f.Num, f.Src.Addr(), f.Dst.Addr(), p.Payload})
		}
	}
	return out
}

// TestCaptures compares the messages of the kernel's managers with the codecs: all of it decodes, and encodes back to
// the same bytes; every prefix is refused.
func TestCaptures(t *testing.T) {
	seen := map[Attribute]int{}
	for _, name := range []string{"roce-mtu1024.pcap", "roce-mtu4096.pcap"} {
		for _, d := range readDatagrams(t, name) {
			if len(d.bytes) != Size {
				t.Fatalf("%s frame %d: %d bytes", name, d.num, len(d.bytes))
			}
			var h Header
			if !h.Decode(d.bytes) {
				t.Fatalf("%s frame %d: no header", name, d.num)
			}
			if want := CMHeader(h.Attribute, h.TID); h != want {
				t.Errorf("%s frame %d: header %+v, want %+v", name, d.num, h, want)
			}
			seen[h.Attribute]++
			m := newMessage(h.Attribute)
			if m == nil || !m.Decode(d.bytes[HeaderLen:]) {
				t.Fatalf("%s frame %d: %v does not decode", name, d.num, h.Attribute)
			}
			if got := m.Append(h.Append(nil)); !bytes.Equal(got, d.bytes) {
				t.Errorf("%s frame %d: %v encodes to\n%x, was\n%x", name, d.num, h.Attribute, got, d.bytes)
			}
			for n := range d.bytes {
				if n < HeaderLen && h.Decode(d.bytes[:n]) || n < DataLen && m.Decode(d.bytes[HeaderLen:HeaderLen+n]) {
					t.Errorf("%s frame %d: %v: decodes from %d bytes", name, d.num, h.Attribute, n)
				}
			}
		}
	}
	for a, want := range map[Attribute]int{AttrREQ: 6, AttrREP: 6, AttrRTU: 6, AttrDREQ: 6, AttrDREP: 6, AttrSIDRREQ: 2,
		AttrSIDRREP: 2} {
		if seen[a] != want {
			t.Errorf("%d %v in the captures, want %d", seen[a], a, want)
		}
	}
}

// TestCaptureFields checks rping's request and its reply, field by field,
// against the known values of rdma_cm.
func TestCaptureFields(t *testing.T) {
	ds := readDatagrams(t, "roce-mtu1024.pcap")
	var req REQ
	var rep REP
	if !req.Decode(ds[0].bytes[HeaderLen:]) || !rep.Decode(ds[1].bytes[HeaderLen:]) {
		t.Fatal("does not decode")
	}
	want := REQ{
		LocalCommID: 0xda2759af, ServiceID: IPService(PortSpaceTCP, 7174), LocalCAGUID: 0x505400fffe000002,
		LocalQPN: 25, ResponderResources: 1, InitiatorDepth: 1, RemoteTimeout: 20, LocalTimeout: 20,
		StartingPSN: 0x7e9341, RetryCount: 7, PKey: ib.DefaultPKey, PathMTU: 3, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(ds[0].src),
			RemoteGID: ib.GIDFromAddr(ds[0].dst),
			FlowLabel: 0xff04e, HopLimit: 64, AckTimeout: 17},
		Private: req.Private,
	}
	if req != want {
		t.Errorf("REQ\n%+v, want\n%+v", req, want)
	}
	var addr IPAddress
	if !addr.Decode(req.Private[:]) || !addr.Valid() || addr.SrcAddr().Addr() != ds[0].src ||
		addr.DstAddr() != ds[0].dst {
		t.Errorf("address header %+v of a request from %v to %v", addr, ds[0].src, ds[0].dst)
	}
	if again := NewIPAddress(addr.SrcAddr(), addr.DstAddr()); again != addr {
		t.Errorf("NewIPAddress: %+v, was %+v", again, addr)
	}
	wantREP := REP{LocalCommID: 0x192f42b9, RemoteCommID: 0xda2759af, LocalQPN: 25, StartingPSN: 0x89b8a3,
		ResponderResources: 1, InitiatorDepth: 1, AckDelay: 15, RNRRetryCount: 7, LocalCAGUID: 0x505400fffe000001}
	if rep != wantREP {
		t.Errorf("REP\n%+v, want\n%+v", rep, wantREP)
	}
}
