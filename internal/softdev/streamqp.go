// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/internal/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// streamQP is a queue pair.
type streamQP struct {
	dev    *StreamDevice
	engine *rdmap.QP
	recv   queue.RecvQueue
	srq    *srq
	events func(verbs.EventType)
	conn   *conn
	posts  uint // since pass
	pass   uint
	polls  uint32 // when the first of them was posted
	polled bool   // the program polled before it

	redial  alarm // makes another attempt to meet the peer
	giveUp  alarm // ends the wait of work requests for a stream
	looks   int   // how often it comes before it does
	attempt uint
}

func (p *streamPD) CreateQP(spec verbs.QPSpec) (verbs.QPDriver, error) {
	if spec.Type != verbs.RC {
		return nil, &verbs.OpError{Op: "create_qp", Err: verbs.ErrNotSupported,
			Detail: fmt.Sprintf("%v: iWARP runs over a reliable stream and has RC only", spec.Type)}
	}
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if len(d.qps) >= maxQP {
		return nil, verbs.ErrNoMemory
	}
	q := &streamQP{dev: d, events: spec.Events}
	c := rdmap.Config{Device: &d.engine, Num: d.meet.newQPN(d), PD: p.num, SendCQ: spec.SendCQ.(*cq).q, RecvCQ: spec.RecvCQ.(*cq).q,
		SignalAll: spec.SignalAll, Owner: q, Recv: &q.recv,
		Caps: verbs.QPCap{MaxSendWR: spec.MaxSendWR, MaxRecvWR: spec.MaxRecvWR, MaxSendSGE: spec.MaxSendSGE, MaxRecvSGE: spec.MaxRecvSGE,
			MaxInline: spec.MaxInline}}
	if spec.SRQ != nil {
		q.srq = spec.SRQ.(*srq)
		c.Recv, c.Shared = &q.srq.queue, true
	} else {
		q.recv = queue.RecvQueue{PD: p.num, MaxWR: spec.MaxRecvWR, MaxSGE: spec.MaxRecvSGE}
	}
	q.engine = rdmap.New(c)
	q.redial.do = q.seek
	q.giveUp.do = q.abandon
	d.qps[c.Num] = q
	return q, nil
}

func (q *streamQP) raise(t verbs.EventType) { q.events(t) }

func (q *streamQP) Num() verbs.QPN { return q.engine.Num }

func (q *streamQP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if err := checkDepth(attr, mask); err != nil {
		return err
	}
	before := q.engine.State()
	d.transmit() // what was posted before has begun
	if err := q.engine.Modify(attr, mask); err != nil {
		return err
	}
	d.passNow = 0
	if s := q.engine.State(); before == verbs.Init && s == verbs.RTR || before == verbs.RTR && s == verbs.RTS {
		q.seek()
	}
	q.follow()
	d.transmit()
	return nil
}

// follow does with the stream what the queue pair's state asks for.
func (q *streamQP) follow() {
	d := q.dev
	switch q.engine.State() {
	case verbs.Reset:
		q.leave()
		if c := q.conn; c != nil {
			c.end(true)
		}
	case verbs.Err:
		q.leave()
	}
	if q.conn != nil {
		d.addReady(q.conn)
	}
}

// leave gives up meeting the peer.
func (q *streamQP) leave() {
	q.dev.alarms.stop(&q.redial)
	q.dev.alarms.stop(&q.giveUp)
	q.attempt = 0
}

func (q *streamQP) Query() (verbs.QPAttr, verbs.QPCap) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	a := q.engine.Query()
	return a, a.Cap
}

func (q *streamQP) PostSend(wrs []verbs.SendWR) (int, error) {
	return inTurns(wrs, func(part []verbs.SendWR) (int, error) { return q.post(part, false) })
}

func (q *streamQP) PostSendAll(wrs []verbs.SendWR) error {
	_, err := q.post(wrs, true)
	return err
}

func (q *streamQP) post(wrs []verbs.SendWR, all bool) (int, error) {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, verbs.ErrClosed
	}
	n, err := q.engine.Post(wrs, all)
	if n == 0 {
		return n, err
	}
	if q.conn == nil || !q.engine.Up() {
		d.passNow = 0
		q.await()
		d.deliver()
		return n, err
	}
	d.addReady(q.conn)
	// What is posted right after something else joins the next write.
	if q.pass != d.passes {
		polls := d.pollers.count.Load()
		q.polled, q.polls = polls != q.polls, polls
		q.pass, q.posts = d.passes, 0
	}
	q.posts++
	d.passNow = 0
	if leased := d.leased.Load(); (leased || q.polled) && (q.posts > 1 || d.bulk) && q.posts%burst != 0 {
		if !leased {
			d.wakeBy(d.passTime() + ibta.Time(lease)) // the program may never poll again
		}
		return n, err
	}
	d.transmit()
	return n, err
}

// looks is how many parts the wait for a stream has: if the process is stopped for long, that is
// one of them.
const looks = 8

// await bounds the time that work requests wait for a stream: as retries would, if a link is
// set up in that time.
func (q *streamQP) await() {
	if q.engine.Waiting() && q.giveUp.index == 0 && q.engine.Attr().Timeout != 0 {
		q.looks = looks
		q.look()
	}
}

// look begins the next part of the wait.
func (q *streamQP) look() {
	a := q.engine.Attr()
	retries := (4096 * ibta.Time(a.RetryCount+1)) << a.Timeout
	q.dev.alarms.set(&q.giveUp, q.dev.passTime()+max(retries, ibta.Time(q.dev.net.SetupTime()))/looks)
	q.dev.wakeForTimer()
}

// abandon fails what waits for a stream that does not come. One that is about to come is
// waited for: its set-up is bounded by itself.
func (q *streamQP) abandon() {
	if q.looks--; q.looks > 0 {
		if q.engine.Waiting() {
			q.look()
		}
		return
	}
	peer := q.engine.Attr().AH.DGID.Addr()
	if q.dev.net.Arriving() {
		q.await()
		return
	}
	for c := range q.dev.conns {
		if (c.phase == dialing || c.phase == hearing) && c.link.Starting() && c.link.PeerAddr().Addr().Unmap() == peer {
			q.await()
			return
		}
	}
	if q.engine.Waiting() {
		q.engine.Lost(false)
		q.follow()
	}
}

func (q *streamQP) PostRecv(wrs []verbs.RecvWR) (int, error) { return inTurns(wrs, q.postRecv) }

func (q *streamQP) postRecv(wrs []verbs.RecvWR) (int, error) {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, verbs.ErrClosed
	}
	n, err := q.engine.PostRecv(wrs)
	if q.engine.Paused() {
		q.resume()
		d.resumed()
	}
	if q.engine.State() == verbs.Err {
		d.passNow = 0
		d.deliver()
	}
	return n, err
}

// resume goes on with a stream that waited for a receive. What comes of it is for resumed.
func (q *streamQP) resume() {
	q.engine.Resume()
	if q.conn != nil {
		q.conn.looks = 0
		if !q.engine.Paused() {
			q.conn.watch()
		}
		q.dev.addReady(q.conn) // a READ may have to be answered
	}
}

// resumed sends and tells what came of streams that went on, in one turn. Nothing else may happen
// on the device: whoever hears of what was taken hears of it now, even if the streams wait again.
func (d *StreamDevice) resumed() {
	d.passNow = 0
	d.transmit()
	if d.memory.TakeChanged() {
		d.watch.notify()
	}
}

// resumeAll is resume for all queue pairs of a shared receive queue. Each time it begins with
// another one, so that none waits for ever.
func (d *StreamDevice) resumeAll(s *srq) {
	went := false
	for range d.hot {
		if s.queue.Len() == 0 {
			break
		}
		d.turn = (d.turn + 1) % len(d.hot)
		if q := d.hot[d.turn].qp; q.srq == s && q.engine.Paused() {
			q.resume()
			went = true
		}
	}
	if went {
		d.resumed()
	}
}

func (q *streamQP) Destroy() error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	q.leave()
	if q.conn != nil {
		q.conn.end(q.conn.wanted())
	}
	q.engine.Destroy()
	delete(d.qps, q.engine.Num)
	return nil
}

func (q *streamQP) AttachMulticast(verbs.GID, uint16) error {
	if q.dev.isClosed() {
		return verbs.ErrClosed
	}
	return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrInvalid, Detail: "iWARP has no datagrams, and with them no multicast"}
}

func (q *streamQP) DetachMulticast(verbs.GID, uint16) error {
	return &verbs.OpError{Op: "detach_mcast", Err: verbs.ErrInvalid, Detail: "the queue pair is not attached to the group"}
}
