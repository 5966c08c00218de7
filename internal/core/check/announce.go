// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// afterReads checks a work request that sends memory to which an earlier READ or atomic brings data, and whose
// completion has not been polled. It may do so behind it on the same queue pair with a fence (IBTA 10.8.3.3): it then
// gets the data from where the device has put it.
func (d *Device) afterReads(q *queuePair, wr *verbs.SendWR, r *request) {
	if d.reads == 0 || operations[wr.Op].results || len(wr.SGL) == 0 {
		return
	}
	list, lent := make([]verbs.SGE, 0, len(wr.SGL)), []*chunk(nil)
	for _, s := range wr.SGL {
		for s.Length > 0 {
			e, p := d.readInto(&s, q, wr.Flags&verbs.Fence != 0, r)
			n := s.Length
			if p != nil {
				n = p.cut(&s)
			}
			part := verbs.SGE{Addr: s.Addr, Length: n, LKey: s.LKey}
			if p != nil && e.qp.pd == q.pd {
				lent = append(lent, p.lend(&part)...)
			}
			list = append(list, part)
			s.Addr, s.Length = s.Addr+uint64(n), s.Length-n
		}
	}
	if len(list) > q.cap.MaxSendSGE {
		return
	}
	wr.SGL, r.lent = list, lent
	for _, c := range lent {
		c.used++
	}
}

// readInto returns the work request that brings the first byte of s, or else a later one, and the piece of its memory.
// What is sent before it is certain to have come is reported.
func (d *Device) readInto(s *verbs.SGE, q *queuePair, fence bool, r *request) (e *request, p *piece) {
	for _, other := range d.known.qps {
		for i := len(other.sends) - 1; i >= 0; i-- {
			o := other.sends[i]
			if !o.reads() {
				continue
			}
			found := o.covers(s)
			if found == nil || p != nil && found.addr >= p.addr {
				continue
			}
			e, p = o, found
			if fence && other == q {
				e.fenced = true
			}
		}
	}
	if e != nil && !e.fenced && !e.reported {
		e.reported = true
		d.report(q, &Finding{AnnouncedEarly,
			fmt.Sprintf("%s of %s sends bytes at %#x of %s, which %s of %s has not brought yet.", r.name(),
				d.nameOf(q.qp), s.Addr, d.nameOf(p.region.mr), e.name(), d.nameOf(e.qp.qp)), []Place{r.posted,
				e.posted}})
	}
	return e, p
}

// fence notes that a work request with a fence is behind all READs and atomics of its queue.
func (q *queuePair) fence() {
	for _, e := range q.sends {
		e.fenced = e.fenced || e.reads()
	}
}

// covers returns a piece of a work request that has bytes of s, or nil.
func (r *request) covers(s *verbs.SGE) *piece {
	for i := range r.pieces {
		p := &r.pieces[i]
		if s.LKey == p.key && s.Addr < p.addr+uint64(len(p.mem)) && p.addr < s.Addr+uint64(s.Length) {
			return p
		}
	}
	return nil
}

// cut returns how many bytes of s are before the piece, or if none are, in it.
func (p *piece) cut(s *verbs.SGE) uint32 {
	if s.Addr < p.addr {
		return uint32(p.addr - s.Addr)
	}
	return uint32(min(uint64(s.Length), p.addr+uint64(len(p.mem))-s.Addr))
}

// lend has an entry name the memory that the device uses in the place of the program's, and returns it, if there is
// any.
func (p *piece) lend(s *verbs.SGE) []*chunk {
	if s.Addr < p.addr || p.bounce == nil {
		return nil
	}
	s.Addr, s.LKey = p.from.mr.Addr()+uint64(p.from.off)+(s.Addr-p.addr), p.from.mr.LKey()
	return []*chunk{p.from}
}
