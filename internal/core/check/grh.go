// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// grh is the length of the global routing header before each datagram of a receive buffer (IBTA 11.4.1.2).
const grh = 40

// takesDatagrams reports whether receives of a queue are for datagrams. q is nil for a shared receive queue.
func (d *Device) takesDatagrams(q *queuePair, queue *recvQueue) bool {
	if q != nil {
		return q.init.Type == verbs.UD
	}
	return queue.datagrams
}

// sharesDatagrams notes that a UD queue pair takes its receives from a shared receive queue.
func (d *Device) sharesDatagrams(q *queuePair, place Place) {
	queue := d.known.srqs[q.init.SRQ]
	if q.init.Type != verbs.UD || queue == nil {
		return
	}
	queue.datagrams = true
	for _, r := range queue.recvs {
		if r.length < grh {
			d.c.Report(&Finding{UDGRHRoom, fmt.Sprintf("%s of %s has %d bytes, and %s takes it.", r.name(), d.queue(r), r.length, d.nameOf(q.qp)),
				[]Place{r.posted, place}})
		}
	}
}

// TooLong notes that a datagram was dropped which fits a receive, but not behind a GRH. Receives that are shorter than a
// GRH are reported as they are posted.
func (w watcher) TooLong(qpn verbs.QPN, n int, room uint64) {
	if room < grh || uint64(n) > room {
		return
	}
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.h.report(func() *Finding { return w.d.noRoom(qpn, n, int(room)) })
}

// noRoom returns a finding for the receive that a datagram did not fit; nil: it is not known any more.
func (d *Device) noRoom(qpn verbs.QPN, n, room int) *Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.known.qps[qpn]
	if q == nil {
		return nil
	}
	queue := &q.recvs
	if shared := d.known.srqs[q.init.SRQ]; shared != nil {
		queue = shared
	}
	var oldest *request
	for _, r := range queue.recvs {
		if r.length == room && (oldest == nil || r.posted.When.Before(oldest.posted.When)) {
			oldest = r
		}
	}
	if oldest == nil {
		return nil
	}
	return &Finding{UDGRHRoom, fmt.Sprintf("%s of %s has %d bytes. A datagram of %d was dropped: it needs %d.", oldest.name(), d.queue(oldest), room, n,
		n+grh), []Place{oldest.posted}}
}
