// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

var samples = []message{
	stat{"a/b"}, stat{""}, mkdir{"d", attr{0o755, 1}}, setAttr{"d", attr{0o700, -1}},
	open{7, 1 << 40, attr{0o644, 1234567890123456789}, "dir/päth"}, start{7, 3}, written{7, 4},
	finish{7, digest{1, 31: 2}}, abort{7, true}, abort{8, false}, info{Dir}, done{7},
	failure{7, "no space left on device"}, have{7, 0, nil}, have{7, 300, []digest{{1}, {2}}},
	grant{7, 5, 0x7fffdeadbeef, 0x12345678, testSegment}, list{false, "a/b"}, list{true, "a"}, fetch{7, "a/b"},
	entries{Last: true},
	entries{List: []Entry{{File, "näme", 1 << 40, attr{0o644, 1}}, {Dir, "d", 0, attr{0o755, -1}},
		{Other, "pipe", 0, attr{}}}},
}

func TestMessages(t *testing.T) {
	for _, m := range samples {
		b := m.append(nil)
		got, err := parse(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
		if _, text := m.(failure); text {
			continue
		}
		for n := range b {
			if got, err := parse(b[:n]); err == nil && reflect.DeepEqual(got, m) {
				t.Errorf("%d of %d bytes of %+v are taken as the same", n, len(b), m)
			}
		}
	}
	longest := make([]digest, maxSums)
	if b := (have{1, 1000, longest}).append(nil); len(b) > maxMessage {
		t.Errorf("%d sums make %d bytes", maxSums, len(b))
	}
	if b := (open{Name: strings.Repeat("x", maxName)}).append(nil); len(b) > maxMessage {
		t.Errorf("the longest name makes %d bytes", len(b))
	}
	for _, b := range [][]byte{nil, {0}, {99}, (stat{strings.Repeat("x", maxName+1)}).append(nil),
		append((done{1}).append(nil), 0), {byte(kindAbort), 0, 0, 0, 1, 2},
		one(Entry{None, "x", 0, attr{}}), one(Entry{Dir, "x", 1, attr{}}),
		one(Entry{File, "x", math.MaxUint64, attr{}}), one(Entry{File, strings.Repeat("x", maxBase+1), 0, attr{}}),
		one(Entry{File, "", 0, attr{}}), one(Entry{File, ".", 0, attr{}}), one(Entry{File, "..", 0, attr{}}),
		one(Entry{File, "a/b", 0, attr{}}), one(Entry{File, "/", 0, attr{}}), one(Entry{File, "a\x00", 0, attr{}})} {
		if m, err := parse(b); err == nil {
			t.Errorf("%x is taken as %+v", b, m)
		}
	}
}

// one is a list of one entry.
func one(e Entry) []byte { return entries{List: []Entry{e}}.append(nil) }

func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, m := range samples {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		if again := m.append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is %+v, and that is %x", b, m, again)
		}
	})
}

func TestPrintable(t *testing.T) {
	if got := Printable("plain \x1b[31mtext\nnäxt\xff"); got != "plain ?[31mtext?näxt?" &&
		got != "plain ?[31mtext?näxt\ufffd" {
		t.Errorf("%q", got)
	}
}

func TestSegments(t *testing.T) {
	for size, want := range map[int64]int{0: 0, 1: 1, testSegment: 1, testSegment + 1: 2} {
		if got := segments(size); got != want {
			t.Errorf("%d bytes are %d segments, want %d", size, got, want)
		}
	}
	if off, n := span(1, testSegment+5); off != testSegment || n != 5 {
		t.Error(off, n)
	}
}
