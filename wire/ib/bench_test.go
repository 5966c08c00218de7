// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"fmt"
	"hash/crc32"
	"net/netip"
	"testing"
)

var benchFlow = NewPseudoHeader(netip.MustParseAddrPort("10.9.0.1:49152"), netip.MustParseAddrPort("10.9.0.2:4791"),
	true)

func benchPacket(o Opcode, n int) *Packet {
	p := &Packet{BTH: BTH{Opcode: o, PKey: DefaultPKey, DestQP: 17, PSN: 99}, Payload: make([]byte, n)}
	p.PadCount = PadFor(n)
	return p
}

func BenchmarkAppendHeader(b *testing.B) {
	for _, o := range []Opcode{RCWriteMiddle, RCWriteFirst, RCAck, UDSendOnly} {
		b.Run(o.String(), func(b *testing.B) {
			p := benchPacket(o, 0)
			buf := make([]byte, 0, 64)
			b.ReportAllocs()
			b.SetBytes(int64(o.Info().HeaderLen))
			for b.Loop() {
				p.PSN = p.PSN.Next()
				buf = p.AppendHeader(buf[:0])
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, o := range []Opcode{RCWriteMiddle, RCWriteFirst, RCAck, UDSendOnly} {
		b.Run(o.String(), func(b *testing.B) {
			n := 0
			if o.Info().Payload == PayloadMTU {
				n = 1024
			}
			buf := benchPacket(o, n).Append(nil)
			var p Packet
			b.ReportAllocs()
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if err := p.Decode(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerify compares the ICRC's verification with the bare CRC of as
// many bytes.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{64, 1024, 4096} {
		body := benchPacket(RCSendOnly, n).Append(nil)
		pkt := AppendICRC(body, 0, benchFlow.Seed(8+len(body)+ICRCLen, 7))
		run := func(name string, guess uint16, want Verified) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(pkt)))
				for b.Loop() {
					if _, how := benchFlow.Verify(pkt, guess); how != want {
						b.Fatal(how)
					}
				}
			})
		}
		run("whole", 7, VerifiedWhole)
		run("solved", 8, VerifiedSolved)
		b.Run(fmt.Sprintf("crc32/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				crc32.Update(0, crc32.IEEETable, body)
			}
		})
	}
}

// BenchmarkSegments is the ICRC of a GSO train as a sender computes it, a
// header and a payload at a time.
func BenchmarkSegments(b *testing.B) {
	for _, n := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := benchPacket(RCWriteMiddle, n)
			buf := p.Append(nil)
			id := uint16(0)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				seed := benchFlow.Seed(8+len(buf)+ICRCLen, id)
				ICRCUpdate(ICRCHeader(seed, buf[:BTHLen]), buf[BTHLen:])
				id++
			}
		})
	}
}

func BenchmarkSeed(b *testing.B) {
	id := uint16(0)
	b.ReportAllocs()
	for b.Loop() {
		benchFlow.Seed(4124, id)
		id++
	}
}

func BenchmarkNewPseudoHeader(b *testing.B) {
	src, dst := netip.MustParseAddrPort("10.9.0.1:49152"), netip.MustParseAddrPort("10.9.0.2:4791")
	b.ReportAllocs()
	for b.Loop() {
		NewPseudoHeader(src, dst, true)
	}
}
