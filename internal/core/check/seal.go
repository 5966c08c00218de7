// SPDX-License-Identifier: Apache-2.0

package check

import (
	"sync/atomic"
	"unsafe"
)

// seal is a digest of memory as it was posted. Sends that follow each other from the same memory share one: it may not
// change between them, as the first has not completed. So programs that post a buffer again and again, which is then in
// the processor's cache, pay for its digest once.
type seal struct {
	sum    uint64      // 0: it was not mapped
	copies uint32      // how many the checker had made by then
	broken atomic.Bool // a change was reported, and it is not known of later work requests
}

func newSeal(mem []byte, copies uint32) *seal { return &seal{sum: sum(mem), copies: copies} }

// differs reports whether memory has changed whose digest is now another one.
func (s *seal) differs(now uint64) bool {
	return now != s.sum && now != 0 && s.sum != 0 && !s.broken.Load()
}

// share gives a send that is about to be posted the digests of the one before it, which has not completed, if they are
// of the same memory. Nothing else has written there meanwhile if the checker still counts as many copies.
func (r *request) share(before *request, copies uint32) {
	if r.reads() || before.reads() || before.answered || len(r.pieces) != len(before.pieces) {
		return
	}
	for i := range r.pieces {
		p, b := &r.pieces[i], &before.pieces[i]
		if s := b.seal; s != nil && s.sum != 0 && s.copies == copies && !s.broken.Load() && same(p.mem, b.mem) {
			p.seal = s
		}
	}
}

func same(a, b []byte) bool { return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b) }

// lastSum is the digest of memory that was looked at last: many work requests from the same memory may end at once.
type lastSum struct {
	mem    []byte
	sum    uint64
	copies uint32
}

// of returns the digest of memory, with the number of copies so far.
func (l *lastSum) of(mem []byte, copies uint32) uint64 {
	if l.mem == nil || l.copies != copies || !same(l.mem, mem) {
		*l = lastSum{mem, sum(mem), copies}
	}
	return l.sum
}
