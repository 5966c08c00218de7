// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"
)

// half is one direction of a captured TCP connection.
type half struct {
	src, dst [6]byte // address and port
	start    uint32
	bytes    []byte
}

// capture puts the streams of the captured peers (Linux siw) together.
func capture(t testing.TB) (halves []*half) {
	t.Helper()
	b, err := os.ReadFile("testdata/iwarp.pcap")
	if err != nil {
		t.Fatal(err)
	}
	var last = map[[12]byte]*half{}
	for b = b[24:]; len(b) > 16; {
		n := binary.LittleEndian.Uint32(b[8:])
		ip := b[16+14 : 16+n]
		b = b[16+n:]
		if ip[0] != 0x45 || ip[9] != 6 {
			continue
		}
		tcp := ip[20:binary.BigEndian.Uint16(ip[2:])]
		var key [12]byte
		copy(key[:], ip[12:16])
		copy(key[4:], tcp[:2])
		copy(key[6:], ip[16:20])
		copy(key[10:], tcp[2:4])
		seq, data := binary.BigEndian.Uint32(tcp[4:]), tcp[tcp[12]>>4*4:]
		if tcp[13]&2 != 0 { // SYN
			h := &half{src: [6]byte(key[:6]), dst: [6]byte(key[6:]), start: seq + 1}
			halves = append(halves, h)
			last[key] = h
			continue
		}
		h := last[key]
		if h == nil || len(data) == 0 {
			continue
		}
		at := int(seq - h.start)
		if at < len(h.bytes) {
			continue // a retransmission
		}
		if at > len(h.bytes) {
			t.Fatalf("bytes %d to %d were not captured", len(h.bytes), at)
		}
		h.bytes = append(h.bytes, data...)
	}
	return halves
}

// TestCapture decodes everything in the capture and encodes it back. Its peers had agreed
// on no CRCs, as siw does by default: the fields are zero.
func TestCapture(t *testing.T) {
	frames, segments, ops := 0, 0, map[Opcode]int{}
	for i, h := range capture(t) {
		b, out := h.bytes, []byte(nil)
		var f Frame
		if !f.Decode(b) {
			t.Fatalf("stream %d begins with % x", i, b[:min(len(b), 20)])
		}
		frames++
		out = f.Append(out)
		b = b[FrameHeaderLen:]
		private := b[:f.PrivateLen]
		b = b[f.PrivateLen:]
		if f.Flags&FlagEnhanced != 0 {
			var e Enhanced
			if !e.Decode(private) {
				t.Fatalf("stream %d: private data % x", i, private)
			}
			out = e.Append(out)
			private = private[EnhancedLen:]
		}
		out = append(out, private...)
		for len(b) > 0 {
			n := int(binary.BigEndian.Uint16(b))
			fpdu := b[:FPDULen(n)]
			b = b[FPDULen(n):]
			out = appendSegment(t, out, fpdu[LengthLen:][:n], ops)
			segments++
			crc := UpdateCRC(0, out[len(out)-(LengthLen+n):])
			pad := fpdu[LengthLen+n:][:PadLen(n)] // siw does not clear it
			out = append(out, pad...)
			crc = UpdateCRC(crc, pad)
			sum := make([]byte, CRCLen)
			if f.Flags&FlagCRC != 0 {
				PutCRC(sum, crc)
			}
			out = append(out, sum...)
		}
		if !bytes.Equal(out, h.bytes) {
			t.Fatalf("stream %d of %d bytes is encoded to other bytes, from %d on", i, len(h.bytes), diff(out, h.bytes))
		}
	}
	if frames < 18 || segments < 200 {
		t.Errorf("%d frames and %d segments", frames, segments)
	}
	for _, op := range []Opcode{OpWrite, OpReadRequest, OpReadResponse, OpSend} {
		if ops[op] == 0 {
			t.Errorf("no %v in the capture", op)
		}
	}
}

// appendSegment decodes a ULPDU and appends its encoding.
func appendSegment(t *testing.T, out, b []byte, ops map[Opcode]int) []byte {
	t.Helper()
	var h Header
	if !h.Decode(b) {
		t.Fatalf("header % x", b)
	}
	if h.DDP != DDPVersion || h.RDMAP != RDMAPVersion || !h.Opcode.Valid() || h.Tagged != h.Opcode.Tagged() ||
		h.Queue != h.Opcode.Queue() {
		t.Fatalf("header %+v", h)
	}
	ops[h.Opcode]++
	out = binary.BigEndian.AppendUint16(out, uint16(len(b)))
	out = h.Append(out)
	b = b[h.Len():]
	switch h.Opcode {
	case OpReadRequest:
		var r ReadRequest
		if !r.Decode(b) {
			t.Fatalf("read request % x", b)
		}
		return r.Append(out)
	case OpTerminate:
		var x Terminate
		if !x.Decode(b) {
			t.Fatalf("terminate % x", b)
		}
		return x.Append(out)
	}
	return append(out, b...)
}

// diff returns where two slices begin to differ.
func diff(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestCRC32C holds the CRC to a known answer (RFC 3720 appendix B.4).
func TestCRC32C(t *testing.T) {
	var b [4]byte
	PutCRC(b[:], UpdateCRC(0, make([]byte, 32)))
	if want := [4]byte{0xaa, 0x36, 0x91, 0x8a}; b != want || GetCRC(b[:]) != 0x8a9136aa {
		t.Errorf("CRC of 32 zeros: % x, want % x", b, want)
	}
}

func TestPrefixes(t *testing.T) {
	whole := (&Frame{Kind: Request, Revision: 2}).Append(nil)
	var f Frame
	for n := range whole {
		if f.Decode(whole[:n]) {
			t.Errorf("%d bytes of a frame are decoded", n)
		}
	}
	for _, h := range []Header{{Tagged: true}, {}} {
		whole := h.Append(nil)
		for n := range whole {
			if h.Decode(whole[:n]) {
				t.Errorf("%d bytes of a header are decoded", n)
			}
		}
	}
	term := (&Terminate{Cause: MPACRC, HasLen: true, DDP: make([]byte, UntaggedLen)}).Append(nil)
	for n := range term {
		if new(Terminate).Decode(term[:n]) {
			t.Errorf("%d bytes of a terminate are decoded", n)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, h := range capture(f)[:8] {
		if len(h.bytes) > 60 {
			f.Add(slices.Clone(h.bytes[26:60]))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		if h.Decode(b) && !bytes.Equal(h.Append(nil), b[:h.Len()]) {
			t.Errorf("% x is not what it was decoded to: %+v", b, h)
		}
		var x Terminate
		if x.Decode(b) && !bytes.Equal(x.Append(nil), b) {
			t.Errorf("% x is not what it was decoded to: %+v", b, x)
		}
		var fr Frame
		if fr.Decode(b) && !bytes.Equal(fr.Append(nil), b[:FrameHeaderLen]) {
			t.Errorf("% x is not what it was decoded to: %+v", b, fr)
		}
		var e Enhanced
		if e.Decode(b) && !bytes.Equal(e.Append(nil), b[:EnhancedLen]) {
			t.Errorf("% x is not what it was decoded to: %+v", b, e)
		}
		var r ReadRequest
		if r.Decode(b) && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("% x is not what it was decoded to: %+v", b, r)
		}
		var a AtomicResponse
		if a.Decode(b) && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("% x is not what it was decoded to: %+v", b, a)
		}
	})
}
