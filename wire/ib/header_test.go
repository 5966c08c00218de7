// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
)

type header interface {
	Decode([]byte) bool
	Append([]byte) []byte
}

// headerCases has one encoding of each header, with every field distinct and
// every flag's neighbours different from it.
var headerCases = []struct {
	hex  string
	want header
}{
	{"06b51234" + "aabbccdd" + "85010203", &BTH{
		Opcode: RCWriteFirst, SolicitedEvent: true, PadCount: 3, TVer: 5, PKey: 0x1234,
		FECN: true, Resv6: 0x2a, DestQP: 0xbbccdd, AckReq: true, Resv7: 5, PSN: 0x010203,
	}},
	{"64400001" + "5f000001" + "7f800000", &BTH{
		Opcode: UDSendOnly, MigReq: true, PKey: 1,
		BECN: true, Resv6: 0x1f, DestQP: QP1, Resv7: 0x7f, PSN: 0x800000,
	}},
	{"80010000" + "0a000011", &DETH{QKey: QKeyGSI, Resv8: 10, SrcQP: 0x11}},
	{"07abcdef", &XRCETH{Resv8: 7, SRQN: 0xabcdef}},
	{"80000053", &FETH{Resv26: 0x2000001, Selectivity: SelectRegion, Placement: PlacementGlobal | PlacementPersistent}},
	{"0102030405060708" + "11121314" + "21222324", &RETH{VA: 0x0102030405060708, RKey: 0x11121314, DMALen: 0x21222324}},
	{"0102030405060708" + "11121314" + "2122232425262728" + "3132333435363738", &AtomicETH{
		VA: 0x0102030405060708, RKey: 0x11121314, Swap: 0x2122232425262728, Compare: 0x3132333435363738,
	}},
	{"61abcdef", &AETH{Syndrome: NAK(NAKInvalidRequest), MSN: 0xabcdef}},
	{"0102030405060708", &AtomicAckETH{Orig: 0x0102030405060708}},
	{"01020304", ptr(ImmDt(0x01020304))},
	{"01020304", &IETH{RKey: 0x01020304}},
	{"6a5edcba" + "01021b40" + "20010db8000000000000000000000001" + "00000000000000000000ffff0a090002", &GRH{
		IPVer: 6, TClass: 0xa5, FlowLabel: 0xedcba, PayLen: 0x0102, NxtHdr: GRHNextHeader, HopLmt: 64,
		SGID: GID{0: 0x20, 1: 1, 2: 0x0d, 3: 0xb8, 15: 1}, DGID: GID{10: 0xff, 11: 0xff, 12: 10, 13: 9, 15: 2},
	}},
}

func ptr[T any](v T) *T { return &v }

// blank returns a header of h's type with all fields zero.
func blank(h header) header { return reflect.New(reflect.TypeOf(h).Elem()).Interface().(header) }

func TestHeaders(t *testing.T) {
	for _, c := range headerCases {
		t.Run(reflect.TypeOf(c.want).Elem().Name(), func(t *testing.T) {
			b, err := hex.DecodeString(c.hex)
			if err != nil {
				t.Fatal(err)
			}
			into := blank(c.want)
			for n := range b {
				if into.Decode(b[:n:n]) {
					t.Fatalf("decoded from %d of %d bytes", n, len(b))
				}
			}
			if !reflect.ValueOf(into).Elem().IsZero() {
				t.Fatalf("short input left %+v", into)
			}
			if !into.Decode(append(b, 0xee)) {
				t.Fatal("not decoded")
			}
			if !reflect.DeepEqual(into, c.want) {
				t.Errorf("decoded\n%+v, want\n%+v", into, c.want)
			}
			if got := c.want.Append([]byte{1}); !bytes.Equal(got[1:], b) || got[0] != 1 {
				t.Errorf("encoded\n%x, want\n%x", got[1:], b)
			}
		})
	}
}

// TestFieldsDoNotOverflow gives every field of the headers more bits than it
// has: they must not reach its neighbours.
func TestFieldsDoNotOverflow(t *testing.T) {
	for _, c := range []struct {
		h    header
		want string
	}{
		{&BTH{PadCount: 0xff}, "00300000" + "00000000" + "00000000"},
		{&BTH{TVer: 0xff}, "000f0000" + "00000000" + "00000000"},
		{&BTH{Resv6: 0xff}, "00000000" + "3f000000" + "00000000"},
		{&BTH{DestQP: 0xffffffff}, "00000000" + "00ffffff" + "00000000"},
		{&BTH{Resv7: 0xff}, "00000000" + "00000000" + "7f000000"},
		{&BTH{PSN: 0xffffffff}, "00000000" + "00000000" + "00ffffff"},
		{&DETH{SrcQP: 0xffffffff}, "0000000000ffffff"},
		{&XRCETH{SRQN: 0xffffffff}, "00ffffff"},
		{&AETH{MSN: 0xffffffff}, "00ffffff"},
		{&FETH{Selectivity: 0xff}, "00000030"},
		{&FETH{Placement: 0xff}, "0000000f"},
		{&GRH{FlowLabel: 0xffffffff}, "000fffff" + "00000000" +
			"0000000000000000000000000000000000000000000000000000000000000000"},
	} {
		if got := hex.EncodeToString(c.h.Append(nil)); got != c.want {
			t.Errorf("%T %+v: %s, want %s", c.h, c.h, got, c.want)
		}
	}
}
