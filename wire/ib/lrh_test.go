// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// localSample is the sample packet of section 7.8.3 without a GRH, with both of its CRCs.
var localSample = func() []byte {
	b, err := hex.DecodeString("7012375c000e17d2" + "0a20248700" + "87b1b3000dec2a" +
		"01710a1c015d400238f27a050000000ebb884d85fd5cfba4728bc0690ed40000" + "9625b75a" + "45fa")
	if err != nil {
		panic(err)
	}
	return b
}()

func TestSamplePacket(t *testing.T) {
	body, ok := CheckVCRC(localSample)
	if !ok {
		t.Errorf("VCRC is %#x", VCRC(body))
	}
	state, ok := LocalICRC(body[:len(body)-ICRCLen])
	if got := ICRCFinish(nil, state); !ok || !bytes.Equal(got, body[len(body)-ICRCLen:]) {
		t.Errorf("ICRC is %x", got)
	}
	var h LRH
	want := LRH{VL: 7, SL: 1, LNH: LNHLocal, DLID: 0x375c, PktLen: 14, SLID: 0x17d2}
	if !h.Decode(body) || h != want || int(h.PktLen)*4 != len(body) {
		t.Errorf("LRH is %+v of %d bytes, want %+v", h, len(body), want)
	}
}

// TestVCRC holds the tables against the polynomial, bit by bit.
func TestVCRC(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 82))
	for n := range 200 {
		b := randBytes(r, n)
		c := uint16(0xffff)
		for _, v := range b {
			for i := range 8 {
				if (c^uint16(v>>i))&1 != 0 {
					c = c>>1 ^ 0xd008
				} else {
					c >>= 1
				}
			}
		}
		if got := VCRC(b); got != ^c {
			t.Fatalf("VCRC of %d bytes is %#x, want %#x", n, got, ^c)
		}
	}
}

func TestFlowControl(t *testing.T) {
	f := FlowControl{Op: FlowControlInit, FCTBS: 0xabc, VL: 13, FCCL: 0x123}
	b := f.Append([]byte{9})[1:]
	if !bytes.Equal(b[:4], []byte{0x1a, 0xbc, 0xd1, 0x23}) {
		t.Errorf("encodes to %x", b)
	}
	var g FlowControl
	if !g.Decode(b) || g != f {
		t.Errorf("decodes to %+v", g)
	}
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		if g.Decode(b) {
			t.Errorf("flipped bit %d is not seen", bit)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	if g.Decode(b[:5]) || g.Decode(append(b, 0)) {
		t.Error("another length is taken")
	}
}

// FuzzLRH: bytes that decode encode back to the same bytes, as a link header and as a flow-control
// packet.
func FuzzLRH(f *testing.F) {
	f.Add(localSample)
	f.Add(FlowControl{FCTBS: 7, VL: 2, FCCL: 9}.Append(nil))
	f.Add(localSample[:7])
	f.Fuzz(func(t *testing.T, b []byte) {
		var h LRH
		if ok := h.Decode(b); ok != (len(b) >= LRHLen) {
			t.Fatalf("Decode of %d bytes: %v", len(b), ok)
		} else if ok && !bytes.Equal(h.Append(nil), b[:LRHLen]) {
			t.Fatalf("%x decodes to %+v", b[:LRHLen], h)
		}
		var c FlowControl
		if c.Decode(b) && !bytes.Equal(c.Append(nil), b) {
			t.Fatalf("%x decodes to %+v", b, c)
		}
		if body, ok := CheckVCRC(b); ok && !bytes.Equal(AppendVCRC(bytes.Clone(body)), b) {
			t.Fatalf("VCRC of %x", b)
		}
		LocalICRC(b)
	})
}

func BenchmarkVCRC(b *testing.B) {
	buf := make([]byte, 4096)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		VCRC(buf)
	}
}
