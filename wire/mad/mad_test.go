// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/codec"
)

// TestCodecs: messages of all attributes.
func TestCodecs(t *testing.T) {
	var rows []codec.Row
	for _, a := range allAttributes {
		rows = append(rows, codec.Row{Name: a.String(), Len: DataLen, New: func() codec.Codec { return newMessage(a) }})
	}
	codec.Test(t, rows)
}

// TestRefusesShort: a header that is refused leaves its target alone.
func TestRefusesShort(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, DataLen)
	var h Header
	var ip IPAddress
	for n := range HeaderLen {
		if h.Decode(b[:n:n]) || h != (Header{}) {
			t.Errorf("header decodes from %d bytes", n)
		}
	}
	for n := range IPAddressLen {
		if ip.Decode(b[:n:n]) || ip != (IPAddress{}) {
			t.Errorf("address header decodes from %d bytes", n)
		}
	}
}

// TestPrivateData: the messages fill a datagram exactly, with the sizes of
// private data that chapter 12 gives them.
func TestPrivateData(t *testing.T) {
	for name, n := range map[string][2]int{
		"REQ": {len(REQ{}.Private), 92}, "MRA": {len(MRA{}.Private), 222}, "REJ": {len(REJ{}.Private), 148},
		"REP": {len(REP{}.Private), 196}, "RTU": {len(RTU{}.Private), 224}, "DREQ": {len(DREQ{}.Private), 220},
		"DREP": {len(DREP{}.Private), 224}, "SIDR_REQ": {len(SIDRREQ{}.Private), 216},
		"SIDR_REP": {len(SIDRREP{}.Private), 136},
		"LAP":      {len(LAP{}.Private), 168}, "APR": {len(APR{}.Private), 148},
	} {
		if n[0] != n[1] {
			t.Errorf("%s has %d bytes of private data, want %d", name, n[0], n[1])
		}
	}
	for _, a := range allAttributes {
		if n := len(newMessage(a).Append(nil)); n != DataLen {
			t.Errorf("%v has %d bytes, want %d", a, n, DataLen)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		code Timeout
		d    time.Duration
	}{{0, 4096}, {1, 8192}, {14, 67108864}, {20, 4294967296}, {31, 4096 << 31}} {
		if got := c.code.Duration(); got != c.d {
			t.Errorf("%d stands for %v, want %v", c.code, got, c.d)
		}
		if got := TimeoutFor(c.d); got != c.code {
			t.Errorf("TimeoutFor(%v) = %d, want %d", c.d, got, c.code)
		}
	}
	if TimeoutFor(0) != 0 || TimeoutFor(4097) != 1 || TimeoutFor(1<<62) != 31 {
		t.Error("TimeoutFor does not round up within its range")
	}
}

func TestIPService(t *testing.T) {
	if s := IPService(PortSpaceTCP, 7174); s != 0x1061c06 || s.Port() != 7174 || s.PortSpace() != PortSpaceTCP ||
		s&IPServiceMask != 0x1060000 {
		t.Errorf("rping's service ID is %#x", uint64(s))
	}
	six := netip.MustParseAddr("fe80::1")
	h := NewIPAddress(netip.AddrPortFrom(six, 9), six)
	if h.IPVersion != 6 || h.SrcAddr().Addr() != six || h.DstAddr() != six || h.SrcAddr().Port() != 9 {
		t.Errorf("IPv6: %+v", h)
	}
	for _, bad := range []IPAddress{{Version: 0x10, IPVersion: 4}, {IPVersion: 5}, {}} {
		if bad.Valid() || bad.SrcAddr().IsValid() || bad.DstAddr().IsValid() {
			t.Errorf("%+v is valid", bad)
		}
	}
}

func TestStrings(t *testing.T) {
	for r, want := range map[Reason]string{
		RejInvalidServiceID: "invalid service ID", RejStaleConnection: "stale connection",
		RejConsumer:                "consumer reject",
		RejVendorOptionUnsupported: "vendor option not supported", 0: "reserved reason 0", 34: "reserved reason 34",
		65535: "reserved reason 65535",
	} {
		if r.String() != want {
			t.Errorf("reason %d is %q, want %q", uint16(r), r, want)
		}
	}
	for r := RejNoQP; r <= RejAlternateFlowLabel; r++ {
		if strings.HasPrefix(r.String(), "reserved") {
			t.Errorf("reason %d has no text", uint16(r))
		}
	}
	for st := SIDRValid; st <= SIDRUnsupportedVersion; st++ {
		if strings.HasPrefix(st.String(), "reserved") {
			t.Errorf("SIDR status %d has no text", uint8(st))
		}
	}
	if SIDRStatus(9).String() != "reserved SIDR status 9" {
		t.Errorf("status 9 is %q", SIDRStatus(9))
	}
	for _, a := range allAttributes {
		if a.String()[0] == 'a' {
			t.Errorf("attribute %#x has no name", uint16(a))
		}
	}
}

// The captures hold no REJ and no MRA. These Linux 6.12 sent, for a service ID
// without a listener, and to a REQ that came again while its program was
// stopped; the rest is zeros.
func TestKernelAnswers(t *testing.T) {
	for _, c := range []struct {
		bytes     string
		header    Header
		got, want message
	}{
		{"0107020300000000d20afa200362be150012000000000000" + "000000000362be150000000800000000",
			CMHeader(AttrREJ, 0xd20afa200362be15),
			&REJ{}, &REJ{RemoteCommID: 0x0362be15, Message: MessageREQ, Reason: RejInvalidServiceID}},
		{"0107020300000000217e40c7098ba5980011000000000000" + "de8ebb77098ba59800c0000000000000",
			CMHeader(AttrMRA, 0x217e40c7098ba598),
			&MRA{}, &MRA{LocalCommID: 0xde8ebb77, RemoteCommID: 0x098ba598, Message: MessageREQ, ServiceTimeout: 24}},
	} {
		b := make([]byte, Size)
		hex.Decode(b, []byte(c.bytes))
		var h Header
		if !h.Decode(b) || h != c.header || !c.got.Decode(b[HeaderLen:]) {
			t.Fatalf("header %+v, want %+v", h, c.header)
		}
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v %+v, want %+v", h.Attribute, c.got, c.want)
		}
		if !bytes.Equal(c.want.Append(h.Append(nil)), b) {
			t.Errorf("%v does not encode back", h.Attribute)
		}
	}
}

// TestXRC: where the messages have the fields of XRC (table 106, table 110, annex A14).
func TestXRC(t *testing.T) {
	for _, c := range []struct {
		m    message
		want map[int]byte // by offset; all else is zeros
	}{
		{&REQ{Transport: TransportExtended, ExtendedTransport: ExtendedXRC}, map[int]byte{43: 3 << 1, 51: 1}},
		{&REQ{Transport: TransportExtended, ExtendedTransport: 7, MaxCMRetries: 15, SRQ: true},
			map[int]byte{43: 3 << 1, 51: 0xff}},
		{&REQ{Transport: TransportUC, ExtendedTransport: ExtendedXRC}, map[int]byte{43: 1 << 1, 51: 1}},
		{&REP{LocalEECN: 0x123456, SRQ: true}, map[int]byte{16: 0x12, 17: 0x34, 18: 0x56, 27: 1 << 4}},
	} {
		want := make([]byte, DataLen)
		for i, b := range c.want {
			want[i] = b
		}
		if got := c.m.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%+v encodes to\n%x, want\n%x", c.m, got, want)
		}
		got := reflect.New(reflect.TypeOf(c.m).Elem()).Interface().(message)
		if !got.Decode(want) || !reflect.DeepEqual(got, c.m) {
			t.Errorf("decodes to %+v, want %+v", got, c.m)
		}
		if q, ok := got.(*REQ); ok && q.XRC() != (c.want[43] == 3<<1 && c.want[51] == 1) {
			t.Errorf("%+v: XRC %v", q, q.XRC())
		}
	}
}

// FuzzMessages: any bytes decode or not, and encode back.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, d := range readDatagrams(f, "roce-mtu1024.pcap") {
		f.Add(d.bytes)
	}
	header := CMHeader(AttrREQ, 1)
	f.Add((&REQ{Transport: TransportExtended, ExtendedTransport: ExtendedXRC}).Append(header.Append(nil)))
	header = CMHeader(AttrREP, 1)
	f.Add((&REP{LocalEECN: 0xffffff, SRQ: true}).Append(header.Append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		if !h.Decode(b) {
			if len(b) >= HeaderLen {
				t.Fatal("a whole header was refused")
			}
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:HeaderLen]) {
			t.Fatalf("header encodes to %x, was %x", got, b[:HeaderLen])
		}
		for _, a := range allAttributes {
			m := newMessage(a)
			ok := m.Decode(b[HeaderLen:])
			if ok != (len(b) >= Size) {
				t.Fatalf("%v of %d bytes: %v", a, len(b), ok)
			}
			if ok && !bytes.Equal(m.Append(nil), b[HeaderLen:Size]) {
				t.Fatalf("%v does not encode back", a)
			}
		}
		var ip IPAddress
		if ip.Decode(b) && !bytes.Equal(ip.Append(nil), b[:IPAddressLen]) {
			t.Fatal("address header does not encode back")
		}
		if ip.Valid() && (!ip.SrcAddr().IsValid() || !ip.DstAddr().IsValid()) {
			t.Fatal("a valid header without addresses")
		}
	})
}
