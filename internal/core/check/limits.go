// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// checkSend checks a work request as it is posted.
func (d *Device) checkSend(q *queuePair, wr *verbs.SendWR, r *request) {
	report := func(rule Rule, detail string) {
		d.c.Report(&Finding{rule, fmt.Sprintf("%s of %s: %s", r.name(), d.queue(r), detail), []Place{r.posted}})
	}
	op := &operations[wr.Op]
	if len(wr.Inline) > q.cap.MaxInline && !op.stores() { // which brings its 8 bytes with it
		report(InlineLimit, fmt.Sprintf("%d bytes; the queue pair takes %d.", len(wr.Inline), q.cap.MaxInline))
	}
	if op.word {
		checkWord(wr, op, report)
	}
	d.checkBind(q, wr, report)
	d.checkKeys(q.pd, wr.SGL, report)
	if wr.AH != nil {
		if o := d.known.all[wr.AH]; o != nil && o.pd != q.pd {
			report(ForeignPD, fmt.Sprintf("%s is of %s, the queue pair of %s.", o.name(), d.nameOf(o.pd),
				d.nameOf(q.pd)))
		}
	}
}

// checkWord checks the addresses and the length of an operation on a word.
func checkWord(wr *verbs.SendWR, op *operation, report func(Rule, string)) {
	length := len(wr.Inline) + listed(wr.SGL)
	switch {
	case wr.Remote.Addr%word != 0:
		report(AtomicAlignment, fmt.Sprintf("the remote address is %#x.", wr.Remote.Addr))
	case length != word:
		report(AtomicAlignment, fmt.Sprintf("its list has %d bytes.", length))
	case op.results && len(wr.SGL) > 0 && wr.SGL[0].Addr%word != 0:
		report(AtomicAlignment, fmt.Sprintf("its result goes to %#x.", wr.SGL[0].Addr))
	}
}

// checkRecv checks a receive as it is posted.
func (d *Device) checkRecv(q *queuePair, queue *recvQueue, pd any, wr *verbs.RecvWR, place Place) {
	report := func(rule Rule, detail string) {
		d.c.Report(&Finding{rule, fmt.Sprintf("receive %#x: %s", wr.ID, detail), []Place{place}})
	}
	d.checkKeys(pd, wr.SGL, report)
	if length := listed(wr.SGL); length < grh && d.takesDatagrams(q, queue) {
		report(UDGRHRoom, fmt.Sprintf("it has %d bytes.", length))
	}
}

// listed returns the bytes of a scatter/gather list.
func listed(list []verbs.SGE) (n int) {
	for _, s := range list {
		n += int(s.Length)
	}
	return n
}

// checkKeys checks that the regions of a list are of the queue's protection domain.
func (d *Device) checkKeys(pd any, list []verbs.SGE, report func(Rule, string)) {
	for i := range list {
		r := d.known.regions[list[i].LKey]
		if r != nil && r.pd != pd && pd != nil {
			report(ForeignPD, fmt.Sprintf("%s is of %s, the queue of %s.", d.nameOf(r.mr), d.nameOf(r.pd),
				d.nameOf(pd)))
		}
	}
}

// postedSends checks what is on a send queue after work requests were posted.
func (d *Device) postedSends(q *queuePair, added []verbs.SendWR, place Place) {
	for i := range added {
		q.unsignaled++
		if q.signals(&added[i]) {
			q.unsignaled = 0
		}
	}
	switch n := len(q.sends); {
	case q.unsignaled >= q.cap.MaxSendWR && n >= q.cap.MaxSendWR:
		d.c.Report(&Finding{SendQueueUnsignaled,
			fmt.Sprintf("%s takes %d work requests, and the last %d posted are not signaled.",
				d.nameOf(q.qp), q.cap.MaxSendWR, q.unsignaled), []Place{place}})
	case n > q.cap.MaxSendWR:
		d.c.Report(&Finding{SendQueueUnsignaled,
			fmt.Sprintf("%s takes %d work requests, and %d are outstanding until completions are polled: hardware would refuse this one.",
				d.nameOf(q.qp), q.cap.MaxSendWR, n), []Place{place}})
	}
	d.overflow(q.init.SendCQ, place)
}

func (d *Device) postedRecvs(q *queuePair, place Place) {
	if q != nil {
		d.overflow(q.init.RecvCQ, place)
	}
}

// overflow checks that a completion queue holds the completions of all that is outstanding on its queues.
func (d *Device) overflow(cq *verbs.CQ, place Place) {
	c := d.known.cqs[cq]
	if c == nil || c.reported || c.outstanding <= c.cqe {
		return
	}
	c.reported = true
	d.c.Report(&Finding{CQOverflow,
		fmt.Sprintf("%s has %d entries, and %d work requests are outstanding that complete there.",
			d.nameOf(cq), c.cqe, c.outstanding), []Place{place, d.known.all[cq].made}})
}

// leaves reports work requests that name a region which is about to go. One that is flushed has its memory until its
// completion has been polled, but programs destroy such queue pairs without a poll: see [Device.flushed].
func (d *Device) leaves(mr *verbs.MR, how string) {
	place := at("It was " + how)
	for _, r := range d.posted {
		if r.names(mr) {
			d.unprotect(r) // the program may unmap the memory now
		}
	}
	for _, r := range inOrder(d.posted) {
		q := r.qp
		if q != nil && q.state == verbs.StateReset && r.recvs == nil || !r.names(mr) {
			continue
		}
		f := &Finding{RegionInUse, fmt.Sprintf("%s was %s, and %s of %s uses it.", d.nameOf(mr), how, r.name(),
			d.queue(r)),
			[]Place{place, r.posted}}
		if q != nil && q.state == verbs.StateError {
			r.left = f
			continue
		}
		d.c.Report(f)
		return
	}
}

// names reports whether a work request uses a region.
func (r *request) names(mr *verbs.MR) bool {
	return slices.ContainsFunc(r.pieces, func(p piece) bool { return p.region.mr == mr })
}

// flushed reports a work request whose region went before its flush was polled.
func (d *Device) flushed(r *request) {
	if r.left != nil {
		d.c.Report(r.left)
	}
}
