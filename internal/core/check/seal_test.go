// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

// TestShare: a send has the seal of the one before it from the same memory, unless something was written since, a
// change was reported, or the program may use the memory again.
func TestShare(t *testing.T) {
	b := make([]byte, 256)
	d := &Device{c: &Checker{history: newHistory()}}
	for _, c := range []struct {
		name   string
		mem    []byte
		after  func(first *request)
		shared bool
	}{
		{name: "the same", mem: b[:128], shared: true},
		{name: "shorter", mem: b[:64]},
		{name: "elsewhere", mem: b[128:]},
		{name: "copied to", mem: b[:128], after: func(*request) { d.c.copied.add(b[:1]) }},
		{name: "reported", mem: b[:128], after: func(first *request) {
			b[5]++
			if d.changed(first, len(b), new(lastSum)) == nil {
				t.Error("reported: the change is not seen")
			}
		}},
		{name: "answered", mem: b[:128], after: func(first *request) { first.answered = true }},
	} {
		first, second := &request{pieces: []piece{{mem: b[:128]}}}, &request{pieces: []piece{{mem: c.mem}}}
		d.seal(first)
		if c.after != nil {
			c.after(first)
		}
		second.share(first, d.c.copied.now())
		d.seal(second)
		if shared := second.pieces[0].seal == first.pieces[0].seal; shared != c.shared {
			t.Errorf("%s: shared is %v", c.name, shared)
		}
		if d.changed(second, len(b), new(lastSum)) != nil {
			t.Errorf("%s: changed from the start", c.name)
		}
		c.mem[9]++
		if d.changed(second, len(b), new(lastSum)) == nil {
			t.Errorf("%s: a change of the second is not seen", c.name)
		}
	}
}

// TestLastSum: a digest is of the memory as it is after the last copy.
func TestLastSum(t *testing.T) {
	var last lastSum
	a, b := []byte("some bytes"), []byte("other bytes")
	if last.of(a, 1) != sum(a) || last.of(b, 1) != sum(b) {
		t.Error("wrong digests")
	}
	a[0]++
	if last.of(a, 1) != sum(a) {
		t.Error("the digest of other memory is kept")
	}
	a[0]++
	if last.of(a, 2) != sum(a) {
		t.Error("the digest is from before a copy")
	}
}
