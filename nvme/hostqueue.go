// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// hostQueue is a queue of a host. A command in flight has a slot with a region of its own for data, so that the target
// reaches the memory of commands and nothing else. Data is copied to and from it: a program may give up a command at
// any time, and its memory is not touched afterwards. A capsule is in use until its SEND has completed, which may be
// after the response: there are twice as many.
//
// A goroutine that waits for a response takes completions, also for the others, unless one does already. Commands that
// others send while completions are handed out are posted afterwards, together.
type hostQueue struct {
	a       *association
	qid     uint16
	depth   int // entries of the submission queue; one less may be in flight
	maxData int
	inline  int // bytes of data that fit a capsule
	conn    *cm.Conn

	pd        *verbs.PD
	cq        *completionQueue
	qp        *verbs.QP
	capsules  *verbs.MR
	responses *verbs.MR
	stride    int
	slots     []hostSlot
	unused    chan int       // slots
	spare     chan int       // capsules
	sgls      []verbs.SGE    // by capsule
	recvs     []verbs.RecvWR // by receive
	taking    chan struct{}  // full while somebody takes completions, into wcs
	wcs       [128]verbs.WC
	again     []verbs.RecvWR  // receives that are to be posted
	waited    context.Context // see untilEither; the goroutine that takes completions uses these
	either    context.Context
	forget    func()
	interrupt atomic.Pointer[context.CancelFunc] // of a caller that needs a slot, and takes completions; nil: none

	running sync.WaitGroup
	began   time.Time

	posting sync.Mutex // guards the fields below, held for posting
	delayed bool       // the caller that takes completions posts sends
	sends   []verbs.SendWR
	posted  fifo[int] // capsules whose SENDs have not completed

	mu     sync.Mutex
	closed bool
	users  sync.WaitGroup // calls, which use the memory
}

// enter counts a call; false: the queue is closed.
func (q *hostQueue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.users.Add(1)
	}
	return !q.closed
}

// hostSlot is the state of a command in flight.
type hostSlot struct {
	data     *verbs.MR             // nil: no command has needed it yet
	done     chan wire.Completion  // one element
	async    atomic.Pointer[Async] // takes the response instead; nil: nobody
	index    int                   // of its command
	held     atomic.Int32          // by the caller, and until there is a response: see release
	busy     atomic.Bool           // there is no response yet
	deadline atomic.Int64          // of the response, in ns since the queue began; 0: none
}

const responseStride = 64

// setUp is the function for cm.WithSetup.
func (q *hostQueue) setUp(id *cm.ID, p *cm.ConnParam) (err error) {
	q.free() // from an attempt at another address
	dev := id.Device()
	if q.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	n := q.depth - 1
	q.stride = (wire.CommandSize + q.inline + 63) &^ 63
	if q.capsules, err = q.pd.AllocMR(2*n*q.stride, 0); err != nil {
		return err
	}
	if q.responses, err = q.pd.AllocMR(q.depth*responseStride, verbs.LocalWrite); err != nil {
		return err
	}
	if q.cq, err = newCompletionQueue(dev, 2*n+q.depth, q.qid); err != nil {
		return err
	}
	q.qp, err = id.CreateQP(q.pd, verbs.QPInit{Type: verbs.RC, SendCQ: q.cq.CQ, RecvCQ: q.cq.CQ,
		Cap: verbs.QPCap{MaxSendWR: 2 * n, MaxRecvWR: q.depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	q.recvs = make([]verbs.RecvWR, q.depth)
	for i := range q.recvs {
		q.recvs[i] = verbs.RecvWR{ID: idRecv | uint64(i),
			SGL: []verbs.SGE{q.responses.SGE(i*responseStride, wire.CompletionSize)}}
	}
	if _, err := q.qp.PostRecvList(q.recvs); err != nil {
		return err
	}
	q.taking, q.forget = make(chan struct{}, 1), func() {}
	q.slots, q.unused = make([]hostSlot, n), make(chan int, n)
	for i := range q.slots {
		q.slots[i].done = make(chan wire.Completion, 1)
		q.unused <- i
	}
	q.sgls, q.spare = make([]verbs.SGE, 2*n), make(chan int, 2*n)
	for i := range q.sgls {
		q.spare <- i
	}
	r := wire.Request{QID: q.qid, HostRecvs: uint16(q.depth), HostSends: uint16(q.depth - 1)}
	if q.qid > 0 {
		r.Controller = q.a.id
	}
	p.PrivateData = r.Append(nil)
	p.RetryCount, p.RNRRetryCount = 7, 7
	return id.SetRNRRetry(7)
}

// start has the queue end with its connection, and with a command that has no response in time.
func (q *hostQueue) start(conn *cm.Conn) {
	q.conn, q.began = conn, time.Now()
	q.running.Go(q.watch)
	q.running.Go(func() {
		select {
		case <-conn.Done():
			q.fail(cm.ErrDisconnected)
		case <-q.a.ctx.Done():
		}
	})
}

// fail ends the association, and the queue with it: commands in flight are lost.
func (q *hostQueue) fail(err error) { q.a.fail(err) }

// watch sees to the deadlines of commands. All commands that have one have the same time, so that none that begins
// while it sleeps is due before it looks again.
func (q *hostQueue) watch() {
	timeout := q.a.c.opt.Timeout
	next := time.NewTimer(timeout)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-q.a.ctx.Done():
			return
		}
		now, first := time.Since(q.began), time.Since(q.began)+timeout
		for i := range q.slots {
			s := &q.slots[i]
			due := time.Duration(s.deadline.Load())
			switch {
			case due == 0 || !s.busy.Load():
			case due <= now:
				q.fail(fmt.Errorf("a command has no response within %v: %w", timeout, context.DeadlineExceeded))
				return
			default:
				first = min(first, due)
			}
		}
		next.Reset(first - now)
	}
}

// until waits for an element of a channel, slot: one of unused, and takes completions if nobody else does. The error is
// that of ctx or of the association.
func until[T any](ctx context.Context, q *hostQueue, from <-chan T, slot bool) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	default:
	}
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	case <-q.a.ctx.Done():
		return v, q.a.ctx.Err()
	case q.taking <- struct{}{}:
	}
	defer func() { <-q.taking }()
	for {
		select {
		case v = <-from:
			return v, nil
		default:
		}
		n, err := q.take(ctx, slot)
		if err == nil {
			err = q.handOut(q.wcs[:n], func() bool { return len(from) > 0 })
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return v, ctx.Err()
		default:
			q.fail(err) // unless it has ended
			return v, err
		}
	}
}

// take waits for completions. A caller that needs a slot may get none: a slot becomes free without a completion if its
// caller is the last to release it.
func (q *hostQueue) take(ctx context.Context, slot bool) (int, error) {
	if !slot {
		return q.cq.Wait(q.untilEither(ctx), q.wcs[:])
	}
	both, cancel := context.WithCancel(q.a.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	q.interrupt.Store(&cancel)
	defer q.interrupt.Store(nil)
	if len(q.unused) > 0 {
		return 0, nil
	}
	n, err := q.cq.Wait(both, q.wcs[:])
	if err != nil && both.Err() != nil && ctx.Err() == nil && q.a.ctx.Err() == nil {
		err = nil
	}
	return n, err
}

// untilEither returns a context that ends with another one and with the association. Programs wait with one and the
// same again and again.
func (q *hostQueue) untilEither(ctx context.Context) context.Context {
	switch {
	case ctx.Done() == nil:
		return q.a.ctx
	case q.waited == ctx:
		return q.either
	}
	q.forget()
	q.waited = ctx
	var cancel context.CancelFunc
	q.either, cancel = context.WithCancel(q.a.ctx)
	stop := context.AfterFunc(ctx, cancel)
	q.forget = func() { stop(); cancel() }
	return q.either
}

// handOut handles completions. Commands that are sent meanwhile are posted afterwards, together, when the receives of
// the responses are there again. Other calls whose commands have completed have turns before, as long as they send
// more; own: the caller has its own response. An Async needs no turn: it sends many commands at once as it is.
func (q *hostQueue) handOut(wcs []verbs.WC, own func() bool) error {
	q.posting.Lock()
	q.delayed = true
	q.posting.Unlock()
	var err error
	calls := 0
	for i := range wcs {
		call, failed := q.completed(&wcs[i])
		if call {
			calls++
		}
		err = cmp.Or(err, failed)
	}
	if len(q.again) > 0 {
		_, failed := q.qp.PostRecvList(q.again)
		err, q.again = cmp.Or(err, failed), q.again[:0]
	}
	if calls > 0 && own() {
		calls--
	}
	for before := -1; calls > 0 && len(wcs) > 1; {
		runtime.Gosched()
		q.posting.Lock()
		sends := len(q.sends)
		q.posting.Unlock()
		if sends == before {
			break
		}
		before = sends
	}
	q.posting.Lock()
	defer q.posting.Unlock()
	q.delayed = false
	return cmp.Or(err, q.flush())
}

// send sends a capsule of n bytes; more: others follow at once, and the last one sends all.
func (q *hostQueue) send(capsule, n int, more bool) error {
	q.posting.Lock()
	defer q.posting.Unlock()
	q.sgls[capsule] = q.capsules.SGE(capsule*q.stride, n)
	q.sends = append(q.sends, verbs.SendWR{Op: verbs.OpSend, SGL: q.sgls[capsule : capsule+1 : capsule+1]})
	q.posted.push(capsule)
	if q.delayed || more {
		return nil
	}
	return q.flush()
}

// flush posts the commands that are to be sent. Its last work request completes for all. posting is held.
func (q *hostQueue) flush() error {
	n := len(q.sends)
	if n == 0 {
		return nil
	}
	q.sends[n-1].ID, q.sends[n-1].Flags = idSend|uint64(n), verbs.Signaled
	err := q.qp.PostSendAll(q.sends)
	q.sends = q.sends[:0]
	return err
}

// completed handles a completion; call: it is that of a call, which waits for it or has given up.
func (q *hostQueue) completed(wc *verbs.WC) (call bool, err error) {
	if wc.Status != verbs.StatusSuccess {
		if f := q.qp.Failure(); f != nil {
			return false, fmt.Errorf("%w: %v", wc.Err(), f)
		}
		return false, wc.Err()
	}
	arg := int(wc.ID &^ idMask)
	if wc.ID&idMask == idSend {
		q.posting.Lock()
		defer q.posting.Unlock()
		for range arg {
			q.spare <- q.posted.pop()
		}
		return false, nil
	}
	var done wire.Completion
	if !done.Decode(q.responses.Bytes()[arg*responseStride:][:wc.ByteLen]) {
		return false, fmt.Errorf("the controller sent a response of %d bytes: it has %d", wc.ByteLen,
			wire.CompletionSize)
	}
	if int(done.CID) >= len(q.slots) || !q.slots[done.CID].busy.CompareAndSwap(true, false) {
		return false, fmt.Errorf("the controller answered command %d, which is not in flight", done.CID)
	}
	q.again = append(q.again, q.recvs[arg])
	a := q.slots[done.CID].async.Load()
	if a != nil {
		a.responded(q, done)
	} else {
		q.slots[done.CID].done <- done
	}
	q.release(int(done.CID))
	return a == nil, nil
}

// release gives up one's hold of a slot. The last one makes it free: the caller has copied its data, and the controller
// has answered.
func (q *hostQueue) release(slot int) {
	if q.slots[slot].held.Add(-1) > 0 {
		return
	}
	q.unused <- slot
	if end := q.interrupt.Load(); end != nil {
		(*end)()
	}
}

// do carries out a command, with data that goes out or comes in, of at most maxData bytes.
func (q *hostQueue) do(ctx context.Context, op string, cmd *wire.Command, out, in []byte) (wire.Completion, error) {
	return q.run(ctx, op, cmd, out, in, q.a.c.opt.Timeout)
}

// await carries out a command without data that may take as long as it likes.
func (q *hostQueue) await(ctx context.Context, op string, cmd *wire.Command) (wire.Completion, error) {
	return q.run(ctx, op, cmd, nil, nil, 0)
}

// run carries out a command; timeout 0: however long it takes.
func (q *hostQueue) run(ctx context.Context, op string, cmd *wire.Command, out, in []byte,
	timeout time.Duration) (done wire.Completion, err error) {
	if !q.enter() {
		return done, q.ended(op, false)
	}
	defer q.users.Done()
	slot, err := until(ctx, q, q.unused, true)
	if err != nil {
		return done, q.notWaited(ctx, op, false)
	}
	capsule, err := until(ctx, q, q.spare, false)
	if err != nil {
		q.unused <- slot
		return done, q.notWaited(ctx, op, false)
	}
	s := &q.slots[slot]
	select {
	case <-s.done: // of a caller that has given up
	default:
	}
	n, err := q.prepare(slot, capsule, cmd, out, in)
	if err != nil {
		q.spare <- capsule
		q.unused <- slot
		return done, fmt.Errorf("nvme: %s: %w", op, err)
	}
	s.begin(q.due(timeout), nil)
	if err := q.send(capsule, n, false); err != nil {
		q.fail(err)
		return done, q.ended(op, false)
	}
	if done, err = until(ctx, q, s.done, false); err != nil {
		q.release(slot)
		return done, q.notWaited(ctx, op, true)
	}
	if done.Status == wire.Success {
		if len(in) > 0 {
			copy(in, s.data.Bytes())
		}
	} else {
		err = &CommandError{Op: op, Status: done.Status, Retry: !done.DNR}
	}
	q.release(slot)
	return done, err
}

// due returns the deadline of a command that is sent now; timeout 0: it has none.
func (q *hostQueue) due(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return 0
	}
	return time.Since(q.began) + timeout
}

// begin makes a slot one of a command in flight.
func (s *hostSlot) begin(due time.Duration, a *Async) {
	s.async.Store(a)
	s.held.Store(2)
	s.deadline.Store(int64(due))
	s.busy.Store(true)
}

// prepare writes the capsule of a command, and returns its length.
func (q *hostQueue) prepare(slot, at int, cmd *wire.Command, out, in []byte) (int, error) {
	s := &q.slots[slot]
	n := max(len(out), len(in))
	capsule := q.capsules.Bytes()[at*q.stride:][:0:q.stride]
	cmd.CID, cmd.Flags = uint16(slot), wire.FlagSGL
	switch {
	case n > q.maxData:
		return 0, fmt.Errorf("%d bytes of data: a command has at most %d", n, q.maxData)
	case n == 0:
		cmd.SGL = wire.Keyed(wire.SGLKeyed, 0, 0, 0)
	case len(out) > 0 && n <= q.inline:
		cmd.SGL = wire.InCapsule(0, n)
		return len(append(cmd.Append(capsule), out...)), nil
	default:
		if s.data == nil {
			mr, err := q.pd.AllocMR(q.maxData, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
			if err != nil {
				return 0, err
			}
			s.data = mr
		}
		copy(s.data.Bytes(), out)
		to := s.data.Remote()
		cmd.SGL = wire.Keyed(wire.SGLKeyed, to.Addr, n, uint32(to.Key))
	}
	return len(cmd.Append(capsule)), nil
}

// notWaited returns the error of a command that is given up: that of the caller's context, or of the queue.
func (q *hostQueue) notWaited(ctx context.Context, op string, sent bool) error {
	if ctx.Err() != nil {
		return fmt.Errorf("nvme: %s: %w", op, ctx.Err())
	}
	return q.ended(op, sent)
}

// ended returns the error of a command on a queue that has ended; sent: the controller may have carried it out.
func (q *hostQueue) ended(op string, sent bool) error {
	c := q.a.c
	return &lostError{sent, fmt.Errorf("nvme: %s: %s at %s: %w", op, c.nqn, c.addr, context.Cause(q.a.ctx))}
}

// close closes the queue of an association that has ended.
func (q *hostQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.users.Wait()
	q.forget()
	q.conn.ID().Disconnect()
	q.running.Wait()
	for q.cq.Poll(q.wcs[:]) > 0 { // flushed work requests
	}
	q.conn.Close()
	q.free()
}

// free frees the objects that setUp has made. The queue pair is gone with its id.
func (q *hostQueue) free() {
	if q.cq != nil {
		q.cq.Close()
	}
	mrs := []*verbs.MR{q.capsules, q.responses}
	for i := range q.slots {
		mrs = append(mrs, q.slots[i].data)
	}
	for _, mr := range mrs {
		if mr != nil {
			mr.Close()
		}
	}
	if q.pd != nil {
		q.pd.Close()
	}
	q.cq, q.capsules, q.responses, q.pd, q.slots = nil, nil, nil, nil, nil
}
