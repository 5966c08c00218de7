// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// sctpStream is a stream of MPA: a request, and FPDUs with so many bytes each.
func sctpStream(private []byte, sizes ...int) []byte {
	b := rdmap.AppendRequest(nil, &rdmap.Proposal{IRD: 3, ORD: 4}, private)
	for i, n := range sizes {
		f := []byte{byte(n >> 8), byte(n)}
		f = append(f, bytes.Repeat([]byte{byte(i + 1)}, n)...)
		b = append(b, append(f, make([]byte, iwarp.FPDULen(n)-len(f))...)...)
	}
	return b
}

// carry has a stream go through messages and back, in pieces of lengths that cut returns.
func carry(t testing.TB, stream []byte, cut func() int) []byte {
	var w sctpWriter
	var r sctpReader
	var got []byte
	for len(stream) > 0 {
		n, msg, ppid := w.take(stream[:min(len(stream), cut())])
		stream = stream[n:]
		if msg == nil {
			continue
		}
		if len(msg) > sctpMessage {
			t.Fatalf("a message of %d bytes", len(msg))
		}
		b, err := r.next(append(bytes.Clone(msg), make([]byte, 8)...)[:len(msg)], ppid)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !w.between() {
		t.Fatal("a part of a message is left")
	}
	if _, err := r.next(w.end(), ppidSession); err == nil {
		t.Fatal("the session goes on")
	}
	return got
}

// TestSCTPFrames wants the same stream on the other side, except for flags without a meaning.
func TestSCTPFrames(t *testing.T) {
	for _, private := range []string{"", "hello", string(make([]byte, rdmap.MaxPrivate))} {
		stream := sctpStream([]byte(private), 14, 18, 15, 16, 17, 1000, rdmap.MaxULPDU)
		for cut := 1; cut < 70; cut++ {
			if got := carry(t, stream, func() int { return cut }); !bytes.Equal(got, stream) {
				t.Fatalf("in pieces of %d bytes: another stream", cut)
			}
		}
	}
}

// TestSCTPReader refuses messages that come when they may not.
func TestSCTPReader(t *testing.T) {
	initiate := func() []byte { return (&iwarp.Session{Function: iwarp.SessionInitiate}).Append(make([]byte, 0, 64)) }
	type message struct {
		b    []byte
		ppid uint32
	}
	for name, c := range map[string][]message{
		"empty":         {{nil, ppidSession}},
		"number":        {{[]byte{0, 1, 0, 1}, ppidSession}},
		"segment first": {{[]byte{0, 0, 1, 2, 3}, ppidSegment}},
		"unknown":       {{[]byte{0, 0, 0, 9}, ppidSession}},
		"other PPID":    {{initiate(), 51}},
		"twice":         {{initiate(), ppidSession}, {[]byte{0, 1, 0, 1}, ppidSession}},
		"again":         {{initiate(), ppidSession}, {initiate(), ppidSession}},
	} {
		var r sctpReader
		for i, m := range c {
			if _, err := r.next(m.b, m.ppid); (err != nil) != (i == len(c)-1) {
				t.Errorf("%s: message %d: %v", name, i, err)
			}
		}
	}
}

func FuzzSCTPReader(f *testing.F) {
	f.Add([]byte{}, uint32(0), []byte{}, uint32(0))
	f.Add([]byte{0}, uint32(0), []byte{0}, uint32(0))
	f.Add([]byte{0, 0, 0, 1}, uint32(ppidSession), []byte{0, 1, 5, 6, 7}, uint32(ppidSegment))
	f.Add([]byte{0, 0, 0, 5, 1, 2, 3, 4}, uint32(ppidSession), []byte{0, 1, 0, 4}, uint32(ppidSession))
	f.Fuzz(func(t *testing.T, a []byte, pa uint32, b []byte, pb uint32) {
		if len(a) > sctpMessage || len(b) > sctpMessage {
			return
		}
		var r sctpReader
		if out, err := r.next(append(bytes.Clone(a), make([]byte, 8)...)[:len(a)], pa); err != nil || !r.established ||
			len(out) < iwarp.FrameHeaderLen {
			return
		}
		if out, err := r.next(append(bytes.Clone(b), make([]byte, 8)...)[:len(b)], pb); err == nil &&
			len(out) != iwarp.FPDULen(len(b)-iwarp.SSNLen) {
			t.Errorf("%d bytes become %d", len(b), len(out))
		}
	})
}

func FuzzSCTPWriter(f *testing.F) {
	f.Add([]byte("hi"), []byte{1, 20, 255}, uint16(100), uint16(20))
	f.Fuzz(func(t *testing.T, private, cuts []byte, a, b uint16) {
		if len(private) > rdmap.MaxPrivate || int(a) > rdmap.MaxULPDU || int(b) > rdmap.MaxULPDU {
			return
		}
		stream, i := sctpStream(private, int(a), int(b)), 0
		got := carry(t, stream, func() int {
			if len(cuts) == 0 {
				return 1000
			}
			i++
			return 1 + int(cuts[i%len(cuts)])
		})
		if !bytes.Equal(got, stream) {
			t.Error("another stream")
		}
	})
}
