// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// referenceICRC builds the whole masked packet and runs one CRC over it.
func referenceICRC(src, dst netip.AddrPort, df bool, id uint16, transport []byte) uint32 {
	b := bytes.Repeat([]byte{0xff}, 8)
	n := uint16(8 + len(transport) + ICRCLen)
	be := binary.BigEndian
	if src.Addr().Is4() {
		b = append(b, 0x45, 0xff)
		b = be.AppendUint16(b, 20+n)
		b = be.AppendUint16(b, id)
		if df {
			b = append(b, 0x40, 0)
		} else {
			b = append(b, 0, 0)
		}
		b = append(b, 0xff, 17, 0xff, 0xff)
	} else {
		b = append(b, 0x6f, 0xff, 0xff, 0xff)
		b = be.AppendUint16(b, n)
		b = append(b, 17, 0xff)
	}
	b = append(b, src.Addr().AsSlice()...)
	b = append(b, dst.Addr().AsSlice()...)
	b = be.AppendUint16(b, src.Port())
	b = be.AppendUint16(b, dst.Port())
	b = be.AppendUint16(b, n)
	b = append(b, 0xff, 0xff)
	at := len(b)
	b = append(b, transport...)
	b[at+4] = 0xff
	return crc32.ChecksumIEEE(b)
}

func randBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

var icrcFlows = []struct {
	name     string
	src, dst netip.AddrPort
	df       bool
}{
	{"IPv4", netip.MustParseAddrPort("192.0.2.7:49152"), netip.MustParseAddrPort("192.0.2.9:4791"), true},
	{"IPv4 without DF", netip.MustParseAddrPort("192.0.2.7:49152"), netip.MustParseAddrPort("192.0.2.9:4791"), false},
	{"IPv6", netip.MustParseAddrPort("[2001:db8::7]:50000"), netip.MustParseAddrPort("[2001:db8::9]:4791"), true},
}

// TestICRCReference holds PseudoHeader against one CRC over the masked packet, for
// random identifications, contents (byte 4 of the BTH too) and every length.
func TestICRCReference(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 1))
	for _, c := range icrcFlows {
		t.Run(c.name, func(t *testing.T) {
			flow := NewPseudoHeader(c.src, c.dst, c.df)
			for n := BTHLen; n <= maxTransport; n += 4 {
				b := randBytes(r, n)
				id := uint16(r.Uint32())
				want := referenceICRC(c.src, c.dst, c.df, id, b)
				seed := flow.Seed(8+n+ICRCLen, id)
				if got := ICRCHeader(seed, b); got != want {
					t.Fatalf("%d bytes, id %#x: %#x, want %#x", n, id, got, want)
				}
				if got := ICRCUpdate(ICRCHeader(seed, b[:BTHLen]), b[BTHLen:]); got != want {
					t.Fatalf("%d bytes, id %#x, in parts: %#x, want %#x", n, id, got, want)
				}
			}
		})
	}
}

// The state after the BTH is the same, found byte after byte or in one.
func TestAfterBTH(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
		f := NewPseudoHeader(netip.AddrPortFrom(netip.MustParseAddr(a), 49152),
			netip.AddrPortFrom(netip.MustParseAddr(a).Next(), UDPPort), true)
		for range 1000 {
			var bth [BTHLen]byte
			for i := range bth {
				bth[i] = byte(rng.Uint32())
			}
			n, id := int(rng.Uint32N(1<<16)), uint16(rng.Uint32())
			if got, want := f.AfterBTH(n, id, bth[:]), ICRCHeader(f.Seed(n, id), bth[:]); got != want {
				t.Fatalf("%s: length %d, identification %d, BTH %x: state %08x, want %08x", a, n, id, bth, got, want)
			}
		}
	}
}

func TestFlowMapsAddresses(t *testing.T) {
	c := icrcFlows[0]
	mapped := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
	}
	if NewPseudoHeader(c.src, c.dst, true) != NewPseudoHeader(mapped(c.src), mapped(c.dst), true) {
		t.Error("an IPv4-mapped address makes another flow")
	}
}

// TestVerify: of every length, a packet verifies whole under the right guess,
// over IPv4 is solved under a wrong one, and every single bit that flips after
// the BTH's byte 4 is found under the right one.
func TestVerify(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 2))
	for _, c := range icrcFlows {
		t.Run(c.name, func(t *testing.T) {
			flow := NewPseudoHeader(c.src, c.dst, c.df)
			for n := BTHLen; n <= maxTransport; n += 4 {
				b := randBytes(r, n)
				id, guess := uint16(r.Uint32()), uint16(r.Uint32())
				b = binary.LittleEndian.AppendUint32(b, referenceICRC(c.src, c.dst, c.df, id, b))
				keep := bytes.Clone(b)
				wantID, wantHow := id, VerifiedSolved
				if flow.ipv6 {
					id, wantID, wantHow = guess, guess, VerifiedWhole
				}
				if got, how := flow.Verify(b, id); got != id || how != VerifiedWhole {
					t.Fatalf("%d bytes, id %#x known: %#x, %d", n, id, got, how)
				}
				if got, how := flow.Verify(b, guess); got != wantID || how != wantHow {
					t.Fatalf("%d bytes, id %#x, guess %#x: %#x, %d", n, id, guess, got, how)
				}
				if !bytes.Equal(b, keep) {
					t.Fatalf("%d bytes: Verify wrote to the packet", n)
				}
				b[4] ^= byte(1 + r.UintN(255)) // variant: any value must do
				if _, how := flow.Verify(b, id); how != VerifiedWhole {
					t.Fatalf("%d bytes: byte 4 of the BTH is covered", n)
				}
				bit := r.IntN(len(b) * 8)
				if bit/8 == 4 {
					continue
				}
				b[bit/8] ^= 1 << (bit % 8)
				if _, how := flow.Verify(b, id); how == VerifiedWhole {
					t.Fatalf("%d bytes: bit %d flipped and nothing seen", n, bit)
				}
			}
		})
	}
}

func TestVerifyLengths(t *testing.T) {
	flow := NewPseudoHeader(icrcFlows[0].src, icrcFlows[0].dst, true)
	for _, n := range []int{0, 1, 3, 4, BTHLen, BTHLen + ICRCLen - 1, BTHLen + ICRCLen + 2,
		maxTransport + ICRCLen + 4} {
		if _, how := flow.Verify(make([]byte, n), 0); how != NotVerified {
			t.Errorf("%d bytes: %d", n, how)
		}
	}
}

// TestVerifyOddLength: packets are multiples of four bytes long, others are
// refused with any CRC.
func TestVerifyOddLength(t *testing.T) {
	c := icrcFlows[0]
	flow := NewPseudoHeader(c.src, c.dst, c.df)
	for n := BTHLen + 1; n < BTHLen+4; n++ {
		b := make([]byte, n)
		b = binary.LittleEndian.AppendUint32(b, referenceICRC(c.src, c.dst, c.df, 7, b))
		if _, how := flow.Verify(b, 7); how != NotVerified {
			t.Errorf("%d bytes: %d", n, how)
		}
	}
}

// TestIPv6IsNotSolved: a difference that another identification would explain
// is corruption where there is none.
func TestIPv6IsNotSolved(t *testing.T) {
	v4, v6 := icrcFlows[0], icrcFlows[2]
	b := make([]byte, 64)
	diff := referenceICRC(v4.src, v4.dst, true, 1, b) ^ referenceICRC(v4.src, v4.dst, true, 2, b)
	b = binary.LittleEndian.AppendUint32(b, referenceICRC(v6.src, v6.dst, true, 0, b)^diff)
	flow := NewPseudoHeader(v6.src, v6.dst, true)
	if _, how := flow.Verify(b, 0); how != NotVerified {
		t.Errorf("%d", how)
	}
}

// TestWrongFlow: a packet that was sent under other addresses, ports or another
// don't-fragment flag is not verified whole.
func TestWrongFlow(t *testing.T) {
	c := icrcFlows[0]
	b := make([]byte, 64)
	b = binary.LittleEndian.AppendUint32(b, referenceICRC(c.src, c.dst, c.df, 7, b))
	other := netip.MustParseAddrPort("192.0.2.8:49152")
	for name, f := range map[string]PseudoHeader{
		"source":         NewPseudoHeader(other, c.dst, c.df),
		"destination":    NewPseudoHeader(c.src, other, c.df),
		"source port":    NewPseudoHeader(netip.AddrPortFrom(c.src.Addr(), 1), c.dst, c.df),
		"don't fragment": NewPseudoHeader(c.src, c.dst, !c.df),
		"family":         NewPseudoHeader(icrcFlows[2].src, icrcFlows[2].dst, true),
	} {
		if _, how := f.Verify(b, 7); how == VerifiedWhole {
			t.Errorf("another %s verifies", name)
		}
	}
}

// TestRandomCorruption measures the strength of the check without the
// identification: of 2^20 packets of noise about 2^4 pass as
// solved, and none whole. The bounds are seven standard deviations wide.
func TestRandomCorruption(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 3))
	flow := NewPseudoHeader(icrcFlows[0].src, icrcFlows[0].dst, true)
	b := randBytes(r, 64+ICRCLen)
	solved := 0
	for range 1 << 20 {
		binary.LittleEndian.PutUint64(b[16+4*r.IntN(8):], r.Uint64())
		switch _, how := flow.Verify(b, 0); how {
		case VerifiedSolved:
			solved++
		case VerifiedWhole:
			t.Fatal("noise verified whole")
		}
	}
	if solved < 1 || solved > 44 {
		t.Errorf("%d of 2^20 random packets solved, want about 16", solved)
	}
	t.Logf("%d of 2^20 solved", solved)
}

// TestBursts: under the right guess no burst of up to 32 bits passes, as
// CRC-32 guarantees.
func TestBursts(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 4))
	flow := NewPseudoHeader(icrcFlows[0].src, icrcFlows[0].dst, true)
	for range 1 << 16 {
		n := 12 + 4*r.IntN(64)
		b := randBytes(r, n)
		b = AppendICRC(b, 0, flow.Seed(8+n+ICRCLen, 7))
		at := 5 + r.IntN(n+ICRCLen-8)
		burst := r.Uint32() | 1
		binary.LittleEndian.PutUint32(b[at:], binary.LittleEndian.Uint32(b[at:])^burst)
		if _, how := flow.Verify(b, 7); how == VerifiedWhole {
			t.Fatalf("%d bytes: burst %#x at %d not seen", n, burst, at)
		}
	}
}

func TestMulP(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 5))
	const one = 1 << 31
	slow := func(a, b uint32) (p uint32) {
		for range 32 { // a = Σ aᵢxⁱ, from x^31 down; p = p·x + aᵢ·b
			p = p>>1 ^ polyIEEE&-(p&1)
			if a&1 != 0 {
				p ^= b
			}
			a >>= 1
		}
		return p
	}
	for range 10000 {
		a, b := r.Uint32(), r.Uint32()
		if got, want := mulP(a, b), slow(a, b); got != want {
			t.Fatalf("mulP(%#x, %#x) = %#x, want %#x", a, b, got, want)
		}
		if mulP(a, one) != a {
			t.Fatalf("mulP(%#x, 1) = %#x", a, mulP(a, one))
		}
		if k := r.IntN(64); mulP(divX(a, k), divX(b, 64-k)) != divX(mulP(a, b), 64) {
			t.Fatalf("x^-%d · x^-%d is not x^-64", k, 64-k)
		}
	}
	if got := mulP(^uint32(0), ^uint32(0)); got != slow(^uint32(0), ^uint32(0)) {
		t.Errorf("all ones squared is %#x", got) // the most carries there can be
	}
}

// TestInfiniBandICRC holds the link forms against a CRC over a masked packet.
func TestInfiniBandICRC(t *testing.T) {
	r := rand.New(rand.NewPCG(4791, 6))
	lrh, grh, body := [LRHLen]byte(randBytes(r, LRHLen)), [GRHLen]byte(randBytes(r, GRHLen)), randBytes(r, 76)

	masked := bytes.Clone(body)
	masked[4] = 0xff
	local := append(bytes.Clone(lrh[:]), masked...)
	local[0] |= 0xf0
	if got, want := ICRCHeader(ICRCLocal(lrh), body), crc32.ChecksumIEEE(local); got != want {
		t.Errorf("local: %#x, want %#x", got, want)
	}

	global := bytes.Repeat([]byte{0xff}, LRHLen)
	global = append(global, grh[0]|0x0f, 0xff, 0xff, 0xff, grh[4], grh[5], grh[6], 0xff)
	global = append(append(global, grh[8:]...), masked...)
	if got, want := ICRCHeader(ICRCGlobal(grh), body), crc32.ChecksumIEEE(global); got != want {
		t.Errorf("global: %#x, want %#x", got, want)
	}
}

// FuzzVerify: of any bytes, Verify accepts nothing that the reference would
// not, and leaves the packet alone.
func FuzzVerify(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0}, uint16(0))
	for _, c := range captures {
		for _, fr := range readFrames(f, c.name) {
			if len(fr.Transport) < 300 {
				f.Add(fr.Transport, fr.ID)
			}
		}
	}
	src, dst := netip.MustParseAddrPort("10.9.0.2:49152"), netip.MustParseAddrPort("10.9.0.1:4791")
	flow := NewPseudoHeader(src, dst, true)
	f.Fuzz(func(t *testing.T, b []byte, guess uint16) {
		keep := bytes.Clone(b)
		id, how := flow.Verify(b, guess)
		if !bytes.Equal(b, keep) {
			t.Fatal("Verify wrote to the packet")
		}
		if how == NotVerified {
			return
		}
		n := len(b) - ICRCLen
		if got, want := binary.LittleEndian.Uint32(b[n:]), referenceICRC(src, dst, true, id, b[:n]); got != want {
			t.Fatalf("accepted with id %#x: ICRC %#x, want %#x", id, got, want)
		}
	})
}
