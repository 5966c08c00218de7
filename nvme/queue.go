// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// queue is a connection of a host: a submission queue and its completion queue. One goroutine takes completions, and
// carries out commands that wait for nothing: see [request.ready]. Each other command runs in a goroutine of its own,
// of which there are as many as receives. The protection domain is the queue's own: its keys are of use to its peer
// only.
type queue struct {
	t     *Target
	port  *Port
	req   wire.Request
	depth int // commands in flight, and receives
	conn  *cm.Conn
	peer  netip.AddrPort

	pd       *verbs.PD
	cq       *completionQueue
	qp       *verbs.QP
	capsules *verbs.MR
	data     *verbs.MR
	arena    *arena
	stride   int             // of capsules
	reads    []chan struct{} // by receive: its READ has completed
	credits  chan struct{}   // one element for each response that has not completed
	recvs    []verbs.RecvWR  // by receive
	batch    batch           // responses of the goroutine that takes completions
	next     *request        // of the goroutine that takes completions; nil: it makes one

	registering sync.Mutex               // guards images
	images      map[*namespace]*verbs.MR // that have been read; nil: cannot be registered

	posting sync.Mutex // held for posting responses
	sent    fifo[span] // memory of responses that have not completed

	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	ctrl   atomic.Pointer[controller] // nil before Connect
	linked sync.Mutex                 // held for a Connect
	size   atomic.Uint32              // entries of the submission queue; 0: the host does not want its head
	taken  atomic.Uint64              // commands

	auth    *dhchap.Controller // nil: the host need not authenticate; set by Connect
	message []byte             // for the host to receive; linked guards it and auth
	locked  atomic.Bool        // the host has to authenticate, and has not yet
}

func newQueue(p *Port, r wire.Request) *queue {
	q := &queue{t: p.t, port: p, req: r, depth: int(r.HostSends) + 1, images: map[*namespace]*verbs.MR{}}
	q.ctx, q.cancel = context.WithCancelCause(context.Background())
	return q
}

// Kinds of work requests, in the highest byte of their IDs.
const (
	idRecv uint64 = iota << 56
	idRead
	idSend
	idMask = 0xff << 56
)

// setUp is the function for cm.WithSetup.
func (q *queue) setUp(id *cm.ID, p *cm.ConnParam) (err error) {
	dev, opt := id.Device(), &q.t.opt
	if q.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	q.stride = (wire.CommandSize + opt.InCapsule + 63) &^ 63
	if q.capsules, err = q.pd.AllocMR(q.depth*q.stride, verbs.LocalWrite); err != nil {
		return err
	}
	if q.data, err = q.pd.AllocMR(opt.QueueMemory, dev.Query().SinkAccess); err != nil {
		return err
	}
	q.arena = newArena(opt.QueueMemory)
	responses := 2 * q.depth       // the next commands may come long before the acknowledgements
	sends := q.depth + 2*responses // a READ for each command, a WRITE and a SEND for each response
	if q.cq, err = newCompletionQueue(dev, q.depth+sends, q.req.QID); err != nil {
		return err
	}
	q.qp, err = id.CreateQP(q.pd, verbs.QPInit{Type: verbs.RC, SendCQ: q.cq.CQ, RecvCQ: q.cq.CQ,
		Cap: verbs.QPCap{MaxSendWR: sends, MaxRecvWR: q.depth, MaxSendSGE: 1, MaxRecvSGE: 1,
			MaxInline: wire.CompletionSize}})
	if err != nil {
		return err
	}
	q.reads = make([]chan struct{}, q.depth)
	q.credits = make(chan struct{}, responses)
	q.recvs = make([]verbs.RecvWR, q.depth)
	for slot := range q.reads {
		q.reads[slot] = make(chan struct{}, 1)
		q.recvs[slot] = verbs.RecvWR{ID: idRecv | uint64(slot),
			SGL: []verbs.SGE{q.capsules.SGE(slot*q.stride, wire.CommandSize+q.t.opt.InCapsule)}}
	}
	if _, err := q.qp.PostRecvList(q.recvs); err != nil {
		return err
	}
	p.PrivateData = (&wire.Accept{Recvs: uint16(q.depth)}).Append(nil)
	p.RetryCount, p.RNRRetryCount = 7, 7
	return id.SetRNRRetry(7)
}

// free frees the objects that setUp has made. The queue pair is gone with the connection.
func (q *queue) free() {
	q.cancel(nil)
	if q.cq != nil {
		q.cq.Close()
	}
	for _, mr := range append(slices.Collect(maps.Values(q.images)), q.capsules, q.data) {
		if mr != nil {
			mr.Close()
		}
	}
	if q.pd != nil {
		q.pd.Close()
	}
}

// errGone is the cause of the end of a queue whose host has closed it.
var errGone = errors.New("the host has disconnected")

// serve serves the queue until the connection ends.
func (q *queue) serve(conn *cm.Conn) {
	q.conn, q.peer = conn, conn.PeerAddr()
	stop := context.AfterFunc(q.ctx, func() { conn.ID().Disconnect() }) // so that the host hears of it at once
	watch := time.AfterFunc(acceptTimeout, func() {
		switch {
		case q.ctrl.Load() == nil:
			q.fail(errors.New("no Connect command came"))
		case q.locked.Load():
			q.fail(errors.New("the host has not authenticated"))
		}
	})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-conn.Done():
			q.fail(errGone)
		case <-q.ctx.Done():
		}
	}()
	wcs := make([]verbs.WC, 128)
	for {
		n, err := q.cq.Wait(q.ctx, wcs)
		if err != nil {
			q.fail(err)
			break
		}
		for i := range wcs[:n] {
			q.completed(&wcs[i])
		}
		if err := q.batch.post(q); err != nil {
			q.fail(err)
		}
	}
	watch.Stop()
	stop()
	<-gone
	if c := q.ctrl.Load(); c != nil {
		c.lost(q)
	}
	q.running.Wait()         // they post to the queue pair; the host has heard of the end by Disconnect
	for q.cq.Poll(wcs) > 0 { // flushed work requests
	}
	conn.Close()
	if c := q.ctrl.Load(); c != nil { // perhaps since a moment
		c.lost(q)
		c.drained()
	}
	q.t.log.Info("a queue has ended", "peer", q.peer, "queue", q.req.QID, "cause", context.Cause(q.ctx))
}

// gone reports whether the connection has ended, perhaps since a moment.
func (q *queue) gone() bool {
	select {
	case <-q.conn.Done():
		return true
	case <-q.ctx.Done():
		return true
	default:
		return false
	}
}

// fail ends the queue.
func (q *queue) fail(err error) { q.cancel(err) }

// completed handles a completion.
func (q *queue) completed(wc *verbs.WC) {
	if wc.Status != verbs.StatusSuccess {
		switch f := q.qp.Failure(); {
		case f != nil:
			q.fail(fmt.Errorf("%w: %v", wc.Err(), f))
		case wc.Status == verbs.StatusWRFlushError:
			q.fail(errGone)
		default:
			q.fail(wc.Err())
		}
		return
	}
	switch arg := wc.ID &^ idMask; wc.ID & idMask {
	case idRecv:
		q.received(int(arg), int(wc.ByteLen))
	case idRead:
		q.reads[arg] <- struct{}{}
	case idSend:
		q.posting.Lock()
		defer q.posting.Unlock()
		for range arg {
			q.arena.put(q.sent.pop())
			<-q.credits
		}
	}
}

// received takes a command capsule.
func (q *queue) received(slot, n int) {
	if q.ctx.Err() != nil {
		return
	}
	capsule := q.capsules.Bytes()[slot*q.stride:][:n]
	r := q.next
	if r == nil {
		r = &request{}
	}
	*r = request{q: q, slot: slot}
	q.next = nil
	if !r.cmd.Decode(capsule) {
		q.fail(fmt.Errorf("a command capsule of %d bytes: it has at least %d", n, wire.CommandSize))
		return
	}
	r.inline = capsule[wire.CommandSize:]
	q.taken.Add(1)
	if r.ready() {
		r.batch = &q.batch
		r.run()
		q.next = r
		return
	}
	q.running.Go(r.run)
}

// request is a command that is being carried out.
type request struct {
	q      *queue
	slot   int
	cmd    wire.Command
	inline []byte     // data in the capsule
	buf    span       // memory for data
	ns     *namespace // of a command that is ready; nil: it is to be looked up
	image  *verbs.MR  // of a read that is ready; nil: it is to be looked up
	push   verbs.SGE  // data that go to the host
	batch  *batch     // takes the response, and a credit is there for it; nil: the response is posted at once
	result uint64
	note   errorNote
}

// errorNote is the detail of a failed command for the error log.
type errorNote struct{ lba uint64 }

// errLater is the status of a command that is answered later, and errEnded that of one that is not answered, because
// the connection has ended. The memory of the latter is not used again: a READ may still write it.
const (
	errLater wire.Status = 0xffff - iota
	errEnded
)

// run carries out a command.
func (r *request) run() {
	switch s := r.dispatch(); s {
	case errLater, errEnded:
	default:
		r.respond(s)
	}
}

// dispatch carries out the command and returns its status.
func (r *request) dispatch() wire.Status {
	c := r.q.ctrl.Load()
	switch {
	case r.cmd.Flags&wire.FlagTransfer != wire.FlagSGL || r.cmd.Flags&wire.FlagFuse != 0:
		return wire.InvalidField
	case r.cmd.Opcode == wire.Fabrics:
		return r.fabrics(c)
	case r.q.locked.Load():
		return wire.AuthenticationRequired
	case c == nil:
		return wire.CommandSequenceError
	case r.q.req.QID == 0 && !c.enabled():
		return wire.CommandSequenceError
	case !c.enabled(): // the controller has ended, or was reset: its queues end, too, with commands that have no answer
		return errEnded
	case r.q.req.QID == 0:
		return r.admin(c)
	}
	return r.io(c)
}

// respond sends the response, after the data that the command returns. The receive is posted first: the host may send
// its next command as soon as it has the response.
func (r *request) respond(s wire.Status) {
	q := r.q
	if r.batch == nil {
		select {
		case q.credits <- struct{}{}:
		case <-q.ctx.Done():
			return
		}
	}
	done := wire.Completion{Result: r.result, CID: r.cmd.CID, Status: s, DNR: permanent(s)}
	if size := q.size.Load(); size > 0 {
		done.SQHead = uint16(q.taken.Load() % uint64(size))
	} else {
		done.SQHead = 0xffff
	}
	if s != wire.Success {
		if c := q.ctrl.Load(); c != nil {
			c.logError(r, s)
		}
	}
	b := r.batch
	if b == nil {
		b = &batch{}
	}
	addr, _, key := r.cmd.SGL.Keyed()
	if s == wire.Success && r.push.Length > 0 {
		b.bytes += int(r.push.Length)
		b.sges = append(b.sges, r.push)
		b.writes = append(b.writes, verbs.SendWR{Op: verbs.OpWrite, SGL: b.sges[len(b.sges)-1:],
			Remote: verbs.Remote{Addr: addr, Key: verbs.Key(key)}})
	}
	b.responses = done.Append(b.responses)
	send := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Solicited,
		Inline: b.responses[len(b.responses)-wire.CompletionSize:]}
	if r.cmd.SGL.Type() == wire.SGLKeyedInvalidate {
		send.Op, send.InvKey = verbs.OpSendInv, verbs.Key(key)
	}
	b.sends, b.recvs, b.spans = append(b.sends, send), append(b.recvs, q.recvs[r.slot]), append(b.spans, r.buf)
	if r.batch != nil && b.bytes < batchBytes {
		return
	}
	if err := b.post(q); err != nil {
		q.fail(err)
	}
}

// batchBytes bounds the data of a batch: the first response is not to wait for much of others.
const batchBytes = 256 << 10

// batch is responses, and the receives of their commands, that are posted together. All data go before all responses:
// packets of one length are sent in fewer system calls.
type batch struct {
	recvs  []verbs.RecvWR
	writes []verbs.SendWR
	sends  []verbs.SendWR
	spans  []span // by response
	bytes  int    // that are written

	sges      []verbs.SGE // of writes
	responses []byte      // of sends
}

// post posts the batch. Its last work request completes for all of it.
func (b *batch) post(q *queue) error {
	if len(b.sends) == 0 {
		return nil
	}
	q.posting.Lock()
	defer q.posting.Unlock()
	_, err := q.qp.PostRecvList(b.recvs)
	if err == nil {
		last := &b.sends[len(b.sends)-1]
		last.ID, last.Flags = idSend|uint64(len(b.sends)), last.Flags|verbs.Signaled
		for _, s := range b.spans {
			q.sent.push(s)
		}
		b.writes = append(b.writes, b.sends...)
		err = q.qp.PostSendAll(b.writes)
	}
	b.recvs, b.writes, b.sends, b.spans, b.bytes = b.recvs[:0], b.writes[:0], b.sends[:0], b.spans[:0], 0
	b.sges, b.responses = b.sges[:0], b.responses[:0]
	return err
}

// permanent reports whether a command that failed so would fail again.
func permanent(s wire.Status) bool {
	switch s {
	case wire.Success, wire.InternalError, wire.AbortRequested, wire.NamespaceNotReady, wire.ConnectControllerBusy,
		wire.UnrecoveredReadError, wire.WriteFault, wire.AsymmetricAccessPersistentLoss,
		wire.AsymmetricAccessInaccessible, wire.AsymmetricAccessTransition:
		return false
	}
	return true
}

// bytes returns the command's memory.
func (r *request) bytes() []byte {
	return r.q.data.Bytes()[r.buf.at*arenaPage:][:r.buf.n*arenaPage]
}

// reserve takes memory for n bytes.
func (r *request) reserve(n int) wire.Status {
	if r.buf.n > 0 { // see ready
		return wire.Success
	}
	var err error
	if r.buf, err = r.q.arena.get(r.q.ctx, n); err != nil {
		return errEnded
	}
	return wire.Success
}

// length returns how many bytes the command's descriptor describes.
func (r *request) length() int {
	if sgl := &r.cmd.SGL; sgl.Type() == wire.SGLInCapsule {
		_, n := sgl.InCapsule()
		return int(min(n, math.MaxInt32))
	}
	_, n, _ := r.cmd.SGL.Keyed()
	return n
}

// pull returns the data that the host has for the command: n bytes, from 1 to MaxData. There is memory for extra bytes
// behind them if they are not in the capsule; see [request.bytes].
func (r *request) pull(n, extra int) ([]byte, wire.Status) {
	switch sgl := &r.cmd.SGL; sgl.Type() {
	case wire.SGLInCapsule:
		off, length := sgl.InCapsule()
		switch {
		case off > uint64(len(r.inline)):
			return nil, wire.SGLOffsetInvalid
		case uint64(length) > uint64(len(r.inline))-off || int64(length) != int64(n):
			return nil, wire.SGLLengthInvalid
		}
		if extra > 0 {
			if s := r.reserve(extra); s != wire.Success {
				return nil, s
			}
		}
		return r.inline[off:][:n], wire.Success
	case wire.SGLKeyed, wire.SGLKeyedInvalidate:
		addr, length, key := sgl.Keyed()
		if length != n {
			return nil, wire.SGLLengthInvalid
		}
		if s := r.reserve(n + extra); s != wire.Success {
			return nil, s
		}
		q := r.q
		if err := q.qp.PostSend(&verbs.SendWR{ID: idRead | uint64(r.slot), Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL:    []verbs.SGE{q.data.SGE(r.buf.at*arenaPage, n)},
			Remote: verbs.Remote{Addr: addr, Key: verbs.Key(key)}}); err != nil {
			q.fail(err)
			return nil, errEnded
		}
		select {
		case <-q.reads[r.slot]:
		case <-q.ctx.Done():
			return nil, errEnded
		}
		return r.bytes()[:n], wire.Success
	}
	return nil, wire.SGLTypeInvalid
}

// takes checks that the command's descriptor is memory of the host, of n bytes.
func (r *request) takes(n int) wire.Status {
	if t := r.cmd.SGL.Type(); t != wire.SGLKeyed && t != wire.SGLKeyedInvalidate {
		return wire.SGLTypeInvalid
	}
	if _, length, _ := r.cmd.SGL.Keyed(); length != n {
		return wire.SGLLengthInvalid
	}
	return wire.Success
}

// room returns memory for the data that the command returns: n bytes, from 1 to MaxData. It is sent with the response.
func (r *request) room(n int) ([]byte, wire.Status) {
	if s := r.takes(n); s != wire.Success {
		return nil, s
	}
	if s := r.reserve(n); s != wire.Success {
		return nil, s
	}
	r.push = r.q.data.SGE(r.buf.at*arenaPage, n)
	return r.bytes()[:n], wire.Success
}

// give returns data to the host.
func (r *request) give(b []byte) wire.Status {
	to, s := r.room(len(b))
	if s == wire.Success {
		copy(to, b)
	}
	return s
}
