// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// stream is one direction of an iWARP connection: a request, and FPDUs of sends.
type stream struct {
	bytes []byte
	cuts  []int // where FPDUs begin
	want  []string
}

// newStream returns a stream of n sends.
func newStream(n int, markers bool) *stream {
	s := &stream{}
	f := iwarp.Frame{Kind: iwarp.Request, Flags: iwarp.FlagCRC, Revision: 1}
	s.bytes = f.Append(nil)
	var fpdus []byte
	for i := range n {
		body := bytes.Repeat([]byte{byte(i)}, 1+i*37%1400)
		h := iwarp.Header{Last: true, DDP: iwarp.DDPVersion, RDMAP: iwarp.RDMAPVersion, Opcode: iwarp.OpSend,
			MSN: uint32(i + 1)}
		ulpdu := append(h.Append(nil), body...)
		s.cuts = append(s.cuts, len(s.bytes)+len(fpdus))
		fpdus = appendFPDU(fpdus, ulpdu, markers)
		s.want = append(s.want, fmt.Sprintf("send %d of %d bytes", i+1, len(body)))
	}
	s.bytes = append(s.bytes, fpdus...)
	return s
}

// appendFPDU appends an FPDU to earlier ones, with markers or without (RFC 5044 section 4).
func appendFPDU(b, ulpdu []byte, markers bool) []byte {
	start := len(b)
	put := func(p []byte) {
		for len(p) > 0 {
			if markers && len(b)%iwarp.MarkerInterval == 0 {
				b = append(b, 0, 0, 0, 0)
				back := len(b) - 4 - start
				binary.BigEndian.PutUint16(b[len(b)-2:], uint16(back))
			}
			n := len(p)
			if markers {
				n = min(n, iwarp.MarkerInterval-len(b)%iwarp.MarkerInterval)
			}
			b, p = append(b, p[:n]...), p[n:]
		}
	}
	put(binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu))))
	put(ulpdu)
	put(make([]byte, iwarp.PadLen(len(ulpdu))))
	if markers && len(b)%iwarp.MarkerInterval == 0 {
		b = append(b, 0, 0, 0, 0)
		binary.BigEndian.PutUint16(b[len(b)-2:], uint16(len(b)-4-start))
	}
	sum := make([]byte, 4)
	iwarp.PutCRC(sum, iwarp.UpdateCRC(0, b[start:]))
	return append(b, sum...)
}

// segment is part of a stream.
type segment struct {
	at, end int
	cut     int // bytes at its end that were not captured
}

const isn = 0xffff_f000 // sequence numbers wrap within the stream

// play decodes a stream of the given segments, each in a frame, between a SYN and a FIN, and returns the packets.
// acked are acknowledgements of the peer, which come after the segment with their index.
func play(t *testing.T, s *stream, segments []segment, markers bool, acked map[int]int) (sends []string,
	kinds map[ItemKind]int) {
	t.Helper()
	d, kinds := NewDecoder(), make(map[ItemKind]int)
	frame := func(back bool, seq, ack uint32, flags byte, data []byte, missing int) {
		src, dst, sport, dport := hostA, hostB, uint16(1000), uint16(2000)
		if back {
			src, dst, sport, dport = dst, src, dport, sport
		}
		b := append([]byte{0x45, 0}, be16(uint16(40+len(data)+missing), 0, 0x4000)...)
		b = append(b, 64, ipTCP, 0, 0)
		b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
		b = append(b, be16(sport, dport)...)
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, seq), ack)
		b = append(b, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
		b = append(b, data...)
		d.Decode(&Frame{Num: d.Counts.Frames + 1, At: at, Link: LinkRaw, Data: b, Length: len(b) + missing},
			func(p *Packet) {
				kinds[p.Stream.Kind]++
				if p.BadCRC {
					t.Errorf("frame %d: the CRC is wrong", p.Frame)
				}
				if p.Stream.Kind == Segment {
					sends = append(sends, fmt.Sprintf("send %d of %d bytes", p.Stream.Header.MSN, len(p.Stream.Body)))
				}
			})
	}
	frame(false, isn-1, 0, tcpSYN, nil, 0)
	frame(true, 99, isn, tcpSYN|tcpACK, nil, 0)
	if markers { // the peer wants them
		f := iwarp.Frame{Kind: iwarp.Reply, Flags: iwarp.FlagCRC | iwarp.FlagMarkers, Revision: 1}
		frame(false, isn, 100, tcpACK, s.bytes[:iwarp.FrameHeaderLen], 0)
		frame(true, 100, isn+20, tcpACK, f.Append(nil), 0)
	}
	for i, g := range segments {
		frame(false, isn+uint32(g.at), 100, tcpACK, s.bytes[g.at:g.end-g.cut], g.cut)
		if n, ok := acked[i]; ok {
			frame(true, 100, isn+uint32(n), tcpACK, nil, 0)
		}
	}
	frame(false, isn+uint32(len(s.bytes)), 100, tcpACK|tcpFIN, nil, 0)
	return sends, kinds
}

// segments cuts a stream into segments of up to most bytes.
func segments(r *rand.Rand, from, n, most int) (all []segment) {
	for at := from; at < n; {
		end := min(n, at+1+r.IntN(most))
		all = append(all, segment{at: at, end: end})
		at = end
	}
	return all
}

// TestStreams: with any segments, order and repetition, the same FPDUs are read, with markers and without.
func TestStreams(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		markers := seed%2 == 1
		s := newStream(40, markers)
		from := 0
		if markers {
			from = iwarp.FrameHeaderLen
		}
		all := segments(r, from, len(s.bytes), 1+r.IntN(3000))
		repeated := 0
		for i := 1; i < len(all); i++ {
			switch r.IntN(10) {
			case 0:
				all[i-1], all[i] = all[i], all[i-1]
			case 1:
				if g := all[r.IntN(i)]; g.end-g.at > 1 {
					all = slices.Insert(all, i, g)
					repeated++
				}
			}
		}
		got, kinds := play(t, s, all, markers, nil)
		if !slices.Equal(got, s.want) {
			t.Fatalf("seed %d: %d sends, want %d: %v", seed, len(got), len(s.want), kinds)
		}
		if kinds[TCPHole]+kinds[MalformedStream] > 0 || kinds[TCPRetransmit] < repeated || kinds[TCPOpen] != 1 ||
			kinds[TCPEnd] != 1 {
			t.Fatalf("seed %d: %v, %d repeated", seed, kinds, repeated)
		}
	}
}

// TestMissingSegment: bytes that the peer acknowledged and the capture lacks are reported, and the stream is found
// again at the next FPDU that begins a segment.
func TestMissingSegment(t *testing.T) {
	s := newStream(20, false)
	var all []segment
	for i, at := range s.cuts {
		end := len(s.bytes)
		if i+1 < len(s.cuts) {
			end = s.cuts[i+1]
		}
		all = append(all, segment{at: at, end: end})
	}
	all = slices.Insert(all, 0, segment{at: 0, end: s.cuts[0]})
	all = slices.Delete(all, 6, 8) // sends 6 and 7
	got, kinds := play(t, s, all, false, map[int]int{6: all[6].end})
	want := slices.Delete(slices.Clone(s.want), 5, 7)
	if !slices.Equal(got, want) || kinds[TCPHole] != 1 {
		t.Errorf("%q, %v", got, kinds)
	}
}

// TestCutSegments: where the capture cut each segment, headers are still read if each segment is one FPDU.
func TestCutSegments(t *testing.T) {
	s := newStream(20, false)
	all := []segment{{at: 0, end: s.cuts[0]}}
	for i, at := range s.cuts {
		end := len(s.bytes)
		if i+1 < len(s.cuts) {
			end = s.cuts[i+1]
		}
		all = append(all, segment{at: at, end: end, cut: max(0, end-at-40)})
	}
	if got, kinds := play(t, s, all, false, nil); !slices.Equal(got, s.want) || kinds[TCPHole] != 0 {
		t.Errorf("%q, %v", got, kinds)
	}
}

// TestBegunLater: a capture that begins in the middle of a connection is read from the next FPDU on.
func TestBegunLater(t *testing.T) {
	s := newStream(20, false)
	d, n := NewDecoder(), 0
	for i := 5; i+1 < len(s.cuts); i++ {
		data := s.bytes[s.cuts[i]:s.cuts[i+1]]
		b := append([]byte{0x45, 0}, be16(uint16(40+len(data)), 0, 0x4000)...)
		b = append(append(append(b, 64, ipTCP, 0, 0), hostA.AsSlice()...), hostB.AsSlice()...)
		b = append(b, be16(1000, 2000)...)
		b = binary.BigEndian.AppendUint32(b, isn+uint32(s.cuts[i]))
		b = append(b, 0, 0, 0, 0, 5<<4, tcpACK, 0xff, 0xff, 0, 0, 0, 0)
		d.Decode(&Frame{Num: i, Link: LinkRaw, Data: append(b, data...), Length: len(b) + len(data)}, func(p *Packet) {
			if p.Stream.Kind == Segment {
				n++
			}
		})
	}
	if n != 14 {
		t.Errorf("%d sends, want 14", n)
	}
}

// TestOtherTCP: connections that are not iWARP are passed over.
func TestOtherTCP(t *testing.T) {
	s := &stream{bytes: bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1000)}
	if got, kinds := play(t, s, segments(rand.New(rand.NewPCG(1, 1)), 0, len(s.bytes), 1400), false,
		nil); len(got) != 0 || len(kinds) != 0 {
		t.Errorf("%q, %v", got, kinds)
	}
}

// A file of thousands of connections that all lack a segment makes the decoder hold so much, and then is refused.
func TestHeldBounded(t *testing.T) {
	d := NewDecoder()
	body := make([]byte, 60_000)
	frame := func(port uint16, seq uint32, flags byte, data []byte) {
		b := append([]byte{0x45, 0}, be16(uint16(40+len(data)), 0, 0x4000)...)
		b = append(append(append(b, 64, ipTCP, 0, 0), hostA.AsSlice()...), hostB.AsSlice()...)
		b = append(b, be16(port, 2000)...)
		b = binary.BigEndian.AppendUint32(b, seq)
		b = append(append(b, 0, 0, 0, 0, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0), data...)
		d.Decode(&Frame{Num: 1, Link: LinkRaw, Data: b, Length: len(b)}, func(*Packet) {})
	}
	most := 0
	for port := range uint16(4000) {
		frame(port+1, 0, tcpSYN, nil)
		for i := range uint32(4) {
			frame(port+1, 100+i*uint32(len(body)), tcpACK, body) // the first bytes are missing
		}
		held := 0
		for _, c := range d.tcps.all {
			for i := range c.halves {
				held += cap(c.halves[i].buf) + c.halves[i].aheadBytes
			}
		}
		if most = max(most, held); d.tcps.held < held {
			t.Fatalf("%d bytes are held, %d counted", held, d.tcps.held)
		}
		if err := d.Err(); err != nil {
			if most > maxHeld+maxFrame || most < maxHeld/2 || !strings.Contains(err.Error(), "wait for others") {
				t.Errorf("%d bytes: %v", most, err)
			}
			return
		}
	}
	t.Errorf("%d bytes are held, and nothing is said", most)
}

// FuzzStream: segments of any content, order and overlap make nothing fail, and the memory that the decoder holds
// for them is bounded.
func FuzzStream(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0}, []byte{0})
	s := newStream(5, false)
	f.Add(s.bytes, []byte{0, 200, 1, 255, 3, 4, 5})
	f.Add(newStream(5, true).bytes, []byte{0, 10, 200, 0, 20})
	f.Fuzz(func(t *testing.T, data, plan []byte) {
		s := &stream{bytes: data}
		var all []segment
		at := 0
		for i := 0; i+2 < len(plan); i += 3 {
			at = max(0, min(len(data), at+int(int8(plan[i]))*4))
			end := min(len(data), at+int(plan[i+1])*8)
			all = append(all, segment{at: at, end: end, cut: min(int(plan[i+2])*2, end-at)})
			at = end
		}
		d := NewDecoder()
		for i, g := range all {
			b := append([]byte{0x45, 0}, be16(uint16(min(40+g.end-g.at, 1<<16-1)), 0, 0x4000)...)
			b = append(append(append(b, 64, ipTCP, 0, 0), hostA.AsSlice()...), hostB.AsSlice()...)
			b = append(b, be16(1000, 2000)...)
			b = binary.BigEndian.AppendUint32(b, isn+uint32(g.at))
			b = append(b, 0, 0, 0, 0, 5<<4, tcpACK, 0xff, 0xff, 0, 0, 0, 0)
			b = append(b, s.bytes[g.at:g.end-g.cut]...)
			d.Decode(&Frame{Num: i + 1, Link: LinkRaw, Data: b, Length: len(b) + g.cut}, func(p *Packet) {
				if p.Missing < 0 || p.Stream == nil {
					t.Errorf("%+v", p)
				}
			})
		}
		held := 0
		defer func() {
			if held != d.tcps.held {
				t.Errorf("%d bytes are held, %d counted", held, d.tcps.held)
			}
		}()
		for _, c := range d.tcps.all {
			for i := range c.halves {
				held += cap(c.halves[i].buf) + c.halves[i].aheadBytes + aheadOverhead*len(c.halves[i].ahead)
				if h := &c.halves[i]; len(h.buf) > maxFPDU+maxFrame || h.aheadBytes > maxAhead+maxFrame ||
					h.aheadBytes < 0 {
					t.Errorf("%d bytes, and %d ahead", len(h.buf), h.aheadBytes)
				}
			}
		}
	})
}
