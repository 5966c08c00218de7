// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// fullPacket returns a packet of the opcode with every header filled, needed
// or not.
func fullPacket(o Opcode, n int) *Packet {
	return &Packet{
		BTH: BTH{Opcode: o, SolicitedEvent: true, PadCount: PadFor(n), PKey: DefaultPKey, DestQP: 0x123456,
			AckReq: true, PSN: 0xabcdef},
		DETH:   DETH{QKey: 0x11111111, SrcQP: 0x222222},
		XRCETH: XRCETH{SRQN: 0x333333},
		FETH:   FETH{Selectivity: SelectRegion, Placement: PlacementGlobal},
		RETH:   RETH{VA: 0x4444444444444444, RKey: 0x55555555, DMALen: 0x66666666},
		AtomicETH: AtomicETH{VA: 0x7777777777777777, RKey: 0x88888888, Swap: 0x9999999999999999,
			Compare: 0xaaaaaaaaaaaaaaaa},
		AETH:      AETH{Syndrome: NAK(NAKRemoteAccessError), MSN: 0xbbbbbb},
		AtomicAck: AtomicAckETH{Orig: 0xcccccccccccccccc},
		Imm:       0xdddddddd,
		IETH:      IETH{RKey: 0xeeeeeeee},
		Payload:   bytes.Repeat([]byte{0x5a}, n),
	}
}

// anyLen returns a length that the rule allows.
func (r PayloadRule) anyLen() int {
	switch r {
	case PayloadMTU:
		return 1024
	case PayloadRest, PayloadAny:
		return 5
	case Payload8:
		return 8
	case Payload16:
		return 16
	}
	return 0
}

// TestOpcodes round-trips every row of the table and cuts it short.
func TestOpcodes(t *testing.T) {
	valid := 0
	names := map[string]Opcode{}
	for i := range 256 {
		o := Opcode(i)
		info := o.Info()
		if o.Transport().Join(o.Operation()) != o {
			t.Errorf("%v does not come apart and together", o)
		}
		if !info.Valid {
			var p Packet
			b := append([]byte{byte(o)}, make([]byte, 63)...)
			if err := p.Decode(b); err != ErrOpcode {
				t.Errorf("%v: %v, want %v", o, err, ErrOpcode)
			}
			if info.Class != ClassInvalid || info.HeaderLen != BTHLen {
				t.Errorf("%v: %+v", o, info)
			}
			continue
		}
		valid++
		if other, ok := names[info.Name]; ok {
			t.Errorf("%#x and %#x are both %q", i, uint8(other), info.Name)
		}
		names[info.Name] = o

		in := fullPacket(o, info.Payload.anyLen())
		b := in.Append(nil)
		if len(in.AppendHeader(nil)) != info.HeaderLen {
			t.Errorf("%v: header of %d bytes, want %d", o, len(in.AppendHeader(nil)), info.HeaderLen)
		}
		var out Packet
		if err := out.Decode(b); err != nil {
			t.Errorf("%v: %v", o, err)
			continue
		}
		if got := out.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%v: encodes to\n%x, was\n%x", o, got, b)
		}
		want := *in
		for _, h := range []struct {
			bit  HeaderSet
			zero func()
		}{
			{HasDETH, func() { want.DETH = DETH{} }},
			{HasXRCETH, func() { want.XRCETH = XRCETH{} }},
			{HasFETH, func() { want.FETH = FETH{} }},
			{HasRETH, func() { want.RETH = RETH{} }},
			{HasAtomicETH, func() { want.AtomicETH = AtomicETH{} }},
			{HasAETH, func() { want.AETH = AETH{} }},
			{HasAtomicAck, func() { want.AtomicAck = AtomicAckETH{} }},
			{HasImm, func() { want.Imm = 0 }},
			{HasIETH, func() { want.IETH = IETH{} }},
		} {
			if info.Headers&h.bit == 0 {
				h.zero()
			}
		}
		if !bytes.Equal(want.Payload, out.Payload) || cap(out.Payload) != len(out.Payload) {
			t.Errorf("%v: payload %x, want %x", o, out.Payload, want.Payload)
		}
		want.Payload, out.Payload = nil, nil
		if !equalPackets(&want, &out) {
			t.Errorf("%v: decoded\n%+v, want\n%+v", o, out, want)
		}
		for n := range info.HeaderLen {
			if err := out.Decode(b[:n:n]); err != ErrShort {
				t.Errorf("%v cut to %d bytes: %v, want %v", o, n, err, ErrShort)
			}
		}
	}
	if want := 25 + 12 + 2 + 1 + 23; valid != want {
		t.Errorf("%d valid opcodes, want %d", valid, want)
	}
}

func equalPackets(a, b *Packet) bool {
	return a.BTH == b.BTH && a.DETH == b.DETH && a.XRCETH == b.XRCETH && a.FETH == b.FETH && a.RETH == b.RETH &&
		a.AtomicETH == b.AtomicETH && a.AETH == b.AETH && a.AtomicAck == b.AtomicAck && a.Imm == b.Imm &&
		a.IETH == b.IETH && a.Pad == b.Pad && bytes.Equal(a.Payload, b.Payload)
}

// TestOpcodeFacts states the facts in the table, independently of it, for
// opcodes that stand for the others.
func TestOpcodeFacts(t *testing.T) {
	for _, c := range []struct {
		o           Opcode
		raw         uint8
		name        string
		headerLen   int
		class       Class
		first, last bool
		imm, inv    bool
	}{
		{RCSendFirst, 0x00, "RC Send First", 12, ClassSend, true, false, false, false},
		{RCSendMiddle, 0x01, "RC Send Middle", 12, ClassSend, false, false, false, false},
		{RCSendLast, 0x02, "RC Send Last", 12, ClassSend, false, true, false, false},
		{RCSendLastImm, 0x03, "RC Send Last Immediate", 16, ClassSend, false, true, true, false},
		{RCSendOnly, 0x04, "RC Send Only", 12, ClassSend, true, true, false, false},
		{RCSendOnlyImm, 0x05, "RC Send Only Immediate", 16, ClassSend, true, true, true, false},
		{RCWriteFirst, 0x06, "RC RDMA Write First", 28, ClassWrite, true, false, false, false},
		{RCWriteMiddle, 0x07, "RC RDMA Write Middle", 12, ClassWrite, false, false, false, false},
		{RCWriteLast, 0x08, "RC RDMA Write Last", 12, ClassWrite, false, true, false, false},
		{RCWriteLastImm, 0x09, "RC RDMA Write Last Immediate", 16, ClassWrite, false, true, true, false},
		{RCWriteOnly, 0x0a, "RC RDMA Write Only", 28, ClassWrite, true, true, false, false},
		{RCWriteOnlyImm, 0x0b, "RC RDMA Write Only Immediate", 32, ClassWrite, true, true, true, false},
		{RCReadRequest, 0x0c, "RC RDMA Read Request", 28, ClassReadRequest, true, true, false, false},
		{RCReadResponseFirst, 0x0d, "RC RDMA Read Response First", 16, ClassReadResponse, true, false, false, false},
		{RCReadResponseMiddle, 0x0e, "RC RDMA Read Response Middle", 12, ClassReadResponse, false, false, false, false},
		{RCReadResponseLast, 0x0f, "RC RDMA Read Response Last", 16, ClassReadResponse, false, true, false, false},
		{RCReadResponseOnly, 0x10, "RC RDMA Read Response Only", 16, ClassReadResponse, true, true, false, false},
		{RCAck, 0x11, "RC Acknowledge", 16, ClassAck, true, true, false, false},
		{RCAtomicAck, 0x12, "RC Atomic Acknowledge", 24, ClassAtomicAck, true, true, false, false},
		{RCCompareSwap, 0x13, "RC Compare Swap", 40, ClassAtomic, true, true, false, false},
		{RCFetchAdd, 0x14, "RC Fetch Add", 40, ClassAtomic, true, true, false, false},
		{RCSendLastInv, 0x16, "RC Send Last Invalidate", 16, ClassSend, false, true, false, true},
		{RCSendOnlyInv, 0x17, "RC Send Only Invalidate", 16, ClassSend, true, true, false, true},
		{RCFlush, 0x1c, "RC Flush", 32, ClassFlush, true, true, false, false},
		{RCAtomicWrite, 0x1d, "RC Atomic Write", 28, ClassAtomicWrite, true, true, false, false},
		{UCSendFirst, 0x20, "UC Send First", 12, ClassSend, true, false, false, false},
		{UCWriteOnlyImm, 0x2b, "UC RDMA Write Only Immediate", 32, ClassWrite, true, true, true, false},
		{UDSendOnly, 0x64, "UD Send Only", 20, ClassSend, true, true, false, false},
		{UDSendOnlyImm, 0x65, "UD Send Only Immediate", 24, ClassSend, true, true, true, false},
		{CNP, 0x81, "CNP", 12, ClassCNP, true, true, false, false},
		{XRCSendFirst, 0xa0, "XRC Send First", 16, ClassSend, true, false, false, false},
		{XRCSendMiddle, 0xa1, "XRC Send Middle", 16, ClassSend, false, false, false, false},
		{XRCWriteOnlyImm, 0xab, "XRC RDMA Write Only Immediate", 36, ClassWrite, true, true, true, false},
		{XRCReadResponseOnly, 0xb0, "XRC RDMA Read Response Only", 16, ClassReadResponse, true, true, false, false},
		{XRCAck, 0xb1, "XRC Acknowledge", 16, ClassAck, true, true, false, false},
		{XRCFetchAdd, 0xb4, "XRC Fetch Add", 44, ClassAtomic, true, true, false, false},
		{XRCSendOnlyInv, 0xb7, "XRC Send Only Invalidate", 20, ClassSend, true, true, false, true},
	} {
		i := c.o.Info()
		if uint8(c.o) != c.raw || c.o.String() != c.name || i.HeaderLen != c.headerLen || i.Class != c.class ||
			i.First != c.first || i.Last != c.last || i.Imm != c.imm || i.Inv != c.inv {
			t.Errorf("%#02x %v: %+v, want %+v", uint8(c.o), c.o, i, c)
		}
		if i.Class.Request() == i.Class.Response() && i.Class != ClassCNP {
			t.Errorf("%v: request and response agree", c.o)
		}
	}
}

// TestTransportsAgree: an operation means the same on every transport, but for
// the DETH of datagrams and the XRCETH of XRC's requests.
func TestTransportsAgree(t *testing.T) {
	for i := range 256 {
		o := Opcode(i)
		info := *o.Info()
		if !info.Valid || o == CNP {
			continue
		}
		rc := *TransportRC.Join(o.Operation()).Info()
		switch {
		case o.Transport() == TransportUD:
			rc.Headers |= HasDETH
			rc.HeaderLen += DETHLen
		case o.Transport() == TransportXRC && rc.Class.Request():
			rc.Headers |= HasXRCETH
			rc.HeaderLen += XRCETHLen
		}
		rc.Name = o.Transport().String() + rc.Name[len("RC"):]
		if info != rc {
			t.Errorf("%v: %+v, RC has %+v", o, info, rc)
		}
	}
}

// TestHeaderOrder looks for each header where it belongs in the packets that
// have several.
func TestHeaderOrder(t *testing.T) {
	for _, c := range []struct {
		o    Opcode
		want []byte // first byte of each four after the BTH
	}{
		{RCWriteOnlyImm, []byte{0x44, 0x44, 0x55, 0x66, 0xdd}},
		{RCAtomicAck, []byte{0x62, 0xcc, 0xcc}},
		{RCFlush, []byte{0x00, 0x44, 0x44, 0x55, 0x66}},
		{UDSendOnlyImm, []byte{0x11, 0x00, 0xdd}},
		{XRCWriteOnlyImm, []byte{0x00, 0x44, 0x44, 0x55, 0x66, 0xdd}},
		{XRCCompareSwap, []byte{0x00, 0x77, 0x77, 0x88, 0x99, 0x99, 0xaa, 0xaa}},
		{XRCSendOnlyInv, []byte{0x00, 0xee}},
	} {
		b := fullPacket(c.o, 0).AppendHeader(nil)[BTHLen:]
		var got []byte
		for word := range slices.Chunk(b, 4) {
			got = append(got, word[0])
		}
		if !bytes.Equal(got, c.want) {
			t.Errorf("%v: %x, want %x", c.o, got, c.want)
		}
	}
}

func TestPayloadRules(t *testing.T) {
	for _, c := range []struct {
		o       Opcode
		n       int
		err     error // of Decode, which does not know the path MTU
		fits1Ki bool
	}{
		{RCSendFirst, 1024, nil, true},
		{RCSendFirst, 4096, nil, false},
		{RCSendMiddle, 0, ErrLength, false},
		{RCSendMiddle, 1000, ErrLength, false},
		{RCSendMiddle, 8192, ErrLength, false},
		{RCSendLast, 0, ErrLength, false}, // LAST has at least one byte
		{RCSendLast, 1, nil, true},
		{RCSendLast, 1024, nil, true},
		{RCSendLast, 1025, nil, false},
		{RCSendLast, 4097, ErrLength, false},
		{RCSendOnly, 0, nil, true},
		{RCSendOnly, 1024, nil, true},
		{RCSendOnly, 1028, nil, false},
		{RCSendOnly, 4100, ErrLength, false},
		{RCReadRequest, 0, nil, true},
		{RCReadRequest, 4, ErrLength, false},
		{RCReadResponseLast, 0, ErrLength, false},
		{RCAck, 4, ErrLength, false},
		{RCAtomicAck, 8, ErrLength, false},
		{RCCompareSwap, 8, ErrLength, false},
		{RCFlush, 4, ErrLength, false},
		{RCAtomicWrite, 8, nil, true},
		{RCAtomicWrite, 4, ErrLength, false},
		{RCAtomicWrite, 12, ErrLength, false},
		{CNP, 16, nil, true},
		{CNP, 0, ErrLength, false},
	} {
		in := fullPacket(c.o, c.n)
		var out Packet
		if err := out.Decode(in.Append(nil)); err != c.err {
			t.Errorf("%v with %d bytes: %v, want %v", c.o, c.n, err, c.err)
		}
		if len(out.Payload) != c.n || out.RETH != in.RETH && c.o.Info().Headers&HasRETH != 0 {
			t.Errorf("%v with %d bytes: not decoded whole", c.o, c.n)
		}
		if got := c.o.Info().Payload.Fits(c.n, 1024); got != c.fits1Ki {
			t.Errorf("%v with %d bytes fits a path MTU of 1024: %v", c.o, c.n, got)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	base := fullPacket(RCSendOnly, 7).Append(nil)
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"nothing", func(b []byte) []byte { return nil }, ErrShort},
		{"TVer 1", func(b []byte) []byte { b[1] |= 1; return b }, ErrVersion},
		{"reserved opcode", func(b []byte) []byte { b[0] = 0x15; return b }, ErrOpcode},
		{"three bytes of an ICRC too many", func(b []byte) []byte { return append(b, 1, 2, 3) }, ErrPad},
		{"pad 3 without payload", func(b []byte) []byte { b[1] |= 0x30; return b[:BTHLen] }, ErrPad},
		{"pad in FIRST", func(b []byte) []byte { b[0] = byte(RCSendFirst); return append(b, make([]byte, 1016)...) },
			ErrLength},
	} {
		var p Packet
		err := p.Decode(c.edit(bytes.Clone(base)))
		if err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	seen := map[string]bool{}
	for e := ErrShort; e < NumDecodeErrors; e++ {
		seen[e.Error()] = true
	}
	if len(seen) != int(NumDecodeErrors)-1 {
		t.Errorf("the errors' texts are not distinct: %v", seen)
	}
}

func TestPadIsKept(t *testing.T) {
	in := fullPacket(RCSendOnly, 5)
	in.Pad = [3]byte{7, 8, 9}
	b := in.Append(nil)
	var out Packet
	out.Pad = [3]byte{1, 1, 1}
	if err := out.Decode(b); err != nil || out.Pad != in.Pad {
		t.Fatalf("%v, pad %v, want %v", err, out.Pad, in.Pad)
	}
	if err := out.Decode(fullPacket(RCSendOnly, 6).Append(nil)); err != nil || out.Pad != [3]byte{} {
		t.Fatalf("%v, the pad of an earlier packet is left: %v", err, out.Pad)
	}
}

func TestNoAllocation(t *testing.T) {
	buf := make([]byte, 0, 8192)
	flow := benchFlow
	for _, o := range []Opcode{RCSendOnly, RCWriteOnlyImm, RCAck, RCCompareSwap, RCFlush, UDSendOnlyImm, XRCWriteOnly} {
		in := fullPacket(o, o.Info().Payload.anyLen())
		var out Packet
		if n := testing.AllocsPerRun(100, func() {
			b := in.Append(buf)
			n := len(b)
			if err := out.Decode(b); err != nil {
				t.Error(err)
			}
			b = AppendICRC(b, 0, flow.Seed(8+n+ICRCLen, 7))
			flow.Verify(b, 7)
			flow.Verify(b, 8)
			out.Decode(b[:n-1]) // the error must not allocate
		}); n != 0 {
			t.Errorf("%v: %v allocations", o, n)
		}
	}
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for i := range 256 {
		if info := Opcode(i).Info(); info.Valid {
			f.Add(fullPacket(Opcode(i), info.Payload.anyLen()).Append(nil))
		}
	}
	for _, c := range captures {
		for _, fr := range readFrames(f, c.name) {
			if len(fr.Transport) < 300 {
				f.Add(fr.Transport[:len(fr.Transport)-ICRCLen])
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		err := p.Decode(b)
		if err != nil && err != ErrLength {
			return
		}
		if got := p.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("%v: encodes to\n%x, was\n%x", p.Opcode, got, b)
		}
		if len(p.Payload)+int(p.PadCount)+p.Opcode.Info().HeaderLen != len(b) {
			t.Fatalf("%v: %d bytes of payload in a packet of %d", p.Opcode, len(p.Payload), len(b))
		}
		if (err == nil) != p.Opcode.Info().Payload.fitsSome(len(p.Payload)) {
			t.Fatalf("%v with %d bytes: %v", p.Opcode, len(p.Payload), err)
		}
	})
}

// FuzzHeaders decodes each header from any bytes and expects the same back.
func FuzzHeaders(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	seed := make([]byte, 64)
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	f.Add(seed)
	f.Add(make([]byte, BTHLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range headerCases {
			n, into := len(c.hex)/2, blank(c.want)
			if ok := into.Decode(b); ok != (len(b) >= n) {
				t.Fatalf("%T from %d bytes: %v", into, len(b), ok)
			} else if !ok {
				continue
			}
			if got := into.Append(nil); !bytes.Equal(got, b[:n]) {
				t.Fatalf("%T: encodes to %x, was %x", into, got, b[:n])
			}
		}
	})
}
