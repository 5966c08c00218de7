// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"testing"
)

// TestCaptures holds every frame of real peers against the codecs: it decodes,
// obeys the length rules of the path MTU, encodes back to the same bytes, and
// its ICRC verifies with and without knowing the identification.
func TestCaptures(t *testing.T) {
	total := 0
	seen := map[Opcode]int{}
	for _, c := range captures {
		for _, f := range readFrames(t, c.name) {
			total++
			body := f.Transport[:len(f.Transport)-ICRCLen]
			var p Packet
			if err := p.Decode(body); err != nil {
				t.Fatalf("%s frame %d: %v", c.name, f.Num, err)
			}
			seen[p.Opcode]++
			if !p.Opcode.Info().Payload.Fits(len(p.Payload), c.mtu) {
				t.Errorf("%s frame %d: %v with %d bytes of payload", c.name, f.Num, p.Opcode, len(p.Payload))
			}
			if got := PadFor(len(p.Payload)); got != p.PadCount {
				t.Errorf("%s frame %d: PadFor(%d) = %d, frame has %d", c.name, f.Num, len(p.Payload), got, p.PadCount)
			}
			if got := p.Append(nil); !bytes.Equal(got, body) {
				t.Errorf("%s frame %d: encodes to\n%x, was\n%x", c.name, f.Num, got, body)
			}

			flow := NewPseudoHeader(f.Src, f.Dst, f.DF)
			before := bytes.Clone(f.Transport)
			if id, how := flow.Verify(f.Transport, f.ID); id != f.ID || how != VerifiedWhole {
				t.Errorf("%s frame %d, right id: id %#x, %d", c.name, f.Num, id, how)
			}
			for _, guess := range []uint16{f.ID + 1, f.ID ^ 0xffff, 0} {
				want := VerifiedSolved
				if guess == f.ID {
					want = VerifiedWhole
				}
				if id, how := flow.Verify(f.Transport, guess); id != f.ID || how != want {
					t.Errorf("%s frame %d, guess %#x: id %#x, %d; want %#x, %d", c.name, f.Num, guess, id, how, f.ID,
						want)
				}
			}
			if !bytes.Equal(before, f.Transport) {
				t.Fatalf("%s frame %d: Verify left its mark", c.name, f.Num)
			}
			seed := flow.Seed(8+len(f.Transport), f.ID)
			if got := AppendICRC(bytes.Clone(body), 0, seed); !bytes.Equal(got, f.Transport) {
				t.Errorf("%s frame %d: AppendICRC gives %x", c.name, f.Num, got[len(body):])
			}
			n := p.Opcode.Info().HeaderLen
			state := ICRCUpdate(ICRCHeader(seed, body[:n]), body[n:])
			if got := ICRCFinish(nil, state); !bytes.Equal(got, f.Transport[len(body):]) {
				t.Errorf("%s frame %d: in parts the ICRC is %x", c.name, f.Num, got)
			}
		}
	}
	if total != 517 {
		t.Errorf("%d RoCEv2 frames in the captures, want 517", total)
	}
	for _, op := range []Opcode{
		RCSendFirst, RCSendMiddle, RCSendLast, RCSendOnly, RCWriteFirst, RCWriteMiddle, RCWriteLast,
		RCWriteOnlyImm, RCReadRequest, RCReadResponseFirst, RCReadResponseLast, RCAck, RCAtomicAck,
		RCCompareSwap, RCFetchAdd, UCSendFirst, UCWriteFirst, UDSendOnly,
	} {
		if seen[op] == 0 {
			t.Errorf("no %v in the captures", op)
		}
	}
}

// TestCapturesTruncated cuts every frame at every length. A shorter packet may
// be right by chance, as another payload or another pad; it must then encode to
// the same bytes.
func TestCapturesTruncated(t *testing.T) {
	for _, c := range captures {
		for _, f := range readFrames(t, c.name) {
			body := f.Transport[:len(f.Transport)-ICRCLen]
			info := Opcode(body[0]).Info()
			flow := NewPseudoHeader(f.Src, f.Dst, f.DF)
			for n := range body {
				var p Packet
				err := p.Decode(body[:n:n])
				switch {
				case n < info.HeaderLen && err != ErrShort:
					t.Fatalf("%s frame %d cut to %d: %v, want %v", c.name, f.Num, n, err, ErrShort)
				case n >= info.HeaderLen && n&3 != 0 && err != ErrPad:
					t.Fatalf("%s frame %d cut to %d: %v, want %v", c.name, f.Num, n, err, ErrPad)
				case info.Payload == PayloadMTU && err == nil && !validMTU(n-info.HeaderLen):
					t.Fatalf("%s frame %d cut to %d: accepted", c.name, f.Num, n)
				case err == nil && !bytes.Equal(p.Append(nil), body[:n]):
					t.Fatalf("%s frame %d cut to %d: does not encode back", c.name, f.Num, n)
				}
			}
			for n := range f.Transport {
				if _, how := flow.Verify(f.Transport[:n:n], f.ID); how == VerifiedWhole {
					t.Fatalf("%s frame %d cut to %d: verified whole", c.name, f.Num, n)
				}
			}
		}
	}
}

func validMTU(n int) bool { return n == 256 || n == 512 || n == 1024 || n == 2048 || n == 4096 }
