// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
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
			detail := fmt.Sprintf("%s of %s has %d bytes, and %s takes it.", r.name(), d.queue(r), r.length,
				d.nameOf(q.qp))
			d.c.Report(&Finding{UDGRHRoom, detail, []Place{r.posted, place}})
		}
	}
}

// TooLong notes that a datagram was dropped which fits a receive, but not behind a GRH. Receives that are shorter than
// a GRH are reported as they are posted.
func (w watcher) TooLong(qpn verbs.QPN, n int, room uint64) {
	if room < grh || uint64(n) > room {
		return
	}
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.h.report(endpoint{w.d, qpn}, func() *Finding { return w.d.noRoom(qpn, n, int(room)) })
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
	return &Finding{UDGRHRoom, fmt.Sprintf("%s of %s has %d bytes. A datagram of %d was dropped: it needs %d.",
		oldest.name(), d.queue(oldest), room, n, n+grh), []Place{oldest.posted}}
}

// maxHeaders is how many GRHs that were received are remembered.
const maxHeaders = 1024

// headers are the GRHs that datagrams have left in memory, by the address where they begin.
type headers map[uintptr]header

// header is a GRH, and the receive that got it.
type header struct {
	data   [grh]byte
	what   string
	posted Place
	polled Place
}

// keepGRH notes the GRH that a receive has got, after it was delivered.
func (d *Device) keepGRH(r *request) {
	if len(r.pieces) == 0 || len(r.pieces[0].mem) < grh {
		return
	}
	what := fmt.Sprintf("%s of %s", r.name(), d.queue(r))
	h := header{what: what, posted: r.posted, polled: at("Its completion was polled")}
	h.posted.What = "The receive was posted"
	if memory.Copy(h.data[:], r.pieces[0].mem[:grh]); len(d.grhs) >= maxHeaders || d.grhs == nil {
		d.grhs = headers{}
	}
	d.grhs[addressOf(r.pieces[0].mem)] = h
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// readsHeader reports a work request that sends a GRH, as if the data of the datagram began there. To send on the 40
// bytes as an entry of their own is no mistake.
func (d *Device) readsHeader(wr *verbs.SendWR, r *request) {
	if len(d.grhs) == 0 || operations[r.op].results {
		return
	}
	if len(wr.Inline) > 0 {
		d.sendsHeader(r, wr.Inline, false)
	}
	for i := range r.pieces {
		d.sendsHeader(r, r.pieces[i].mem, len(r.pieces) > 1)
	}
}

func (d *Device) sendsHeader(r *request, mem []byte, list bool) {
	h, ok := d.grhs[addressOf(mem)]
	if !ok || len(mem) == grh && list {
		return
	}
	if !h.in(mem) {
		delete(d.grhs, addressOf(mem))
		return
	}
	detail := fmt.Sprintf("%s of %s sends %d bytes from where %s begins: its data is %d bytes behind that.",
		r.name(), d.queue(r), len(mem), h.what, grh)
	d.c.Report(&Finding{UDGRHRead, detail, []Place{r.posted, h.polled, h.posted}})
}

// in reports whether memory still begins with a GRH. Zeros, which a GRH may begin with, do not tell.
func (h *header) in(mem []byte) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	n := min(len(mem), grh)
	return bytes.Equal(mem[:n], h.data[:n]) && len(bytes.Trim(h.data[:n], "\x00")) > 0
}
