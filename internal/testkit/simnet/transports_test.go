// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// setup has the parameters of a conversation over queue pairs.
type setup struct {
	typ       verbs.QPType // RC, UC, UD, or XRCIni for XRC in one direction
	pairs     int          // of queue pairs between the two hosts
	steps     int          // operations of each side
	maxLen    int          // bytes of a message
	sendDepth int          // work requests in a send queue
	recvDepth int          // receives that are posted at once
	lateRecv  int64        // receives are posted up to so many nanoseconds later than they could be
	wrap      bool         // PSNs begin shortly before they wrap around
	connect   verbs.ConnectOptions
	// broken says that packets are changed on their way: received messages are not compared, and work
	// may fail.
	broken bool
}

// newSetup makes up a setup of queue pairs of type typ.
func newSetup(r *rand.Rand, typ verbs.QPType) setup {
	s := setup{typ: typ, pairs: 1 + r.IntN(3), steps: 10 + r.IntN(60), sendDepth: 1 + r.IntN(32),
		recvDepth: 1 + r.IntN(16), wrap: r.IntN(2) == 0}
	s.connect = verbs.ConnectOptions{MTU: verbs.MTU256 + verbs.MTU(r.IntN(5)), Timeout: 16,
		RdAtomic: uint8(1 + r.IntN(8)), MinRNRTimer: uint8(1 + r.IntN(14))}
	s.maxLen = targetLen
	if typ == verbs.UC { // any message may take any receive
		s.maxLen = 24 * s.connect.MTU.Bytes()
	}
	if typ == verbs.UD {
		s.maxLen = 4096
	}
	if r.IntN(2) == 0 {
		s.lateRecv = 1 + r.Int64N(int64(2*time.Millisecond))
	}
	return s
}

func (s *setup) reliable() bool { return s.typ == verbs.RC || s.typ == verbs.XRCIni }

const (
	maxInline = 64
	maxPieces = 4
	guardLen  = 64
	guardByte = 0xa5
	grhLen    = 40
	dataQKey  = verbs.QKey(0x11111111)
)

// conversation is random work between two hosts, against a model of its results.
type conversation struct {
	setup
	w     *world
	rand  *rand.Rand
	pds   [2]*verbs.PD
	ways  []*way
	areas []area
	watch *patienceWatch
	close []func() error // of queue pairs and address handles, in order
}

// area is registered memory between two guards that nothing may write to.
type area struct{ whole, inner []byte }

// way is one direction of a pair: the requester of one queue pair and the responder of the other.
type way struct {
	c        *conversation
	name     string
	plan     *plan
	rand     [2]*rand.Rand // of the sender and the receiver
	out      *verbs.QP
	outCQ    *verbs.CQ
	posted   int
	polled   int // steps up to here have completed, if they were signaled
	ah       *verbs.AH
	peer     verbs.QPN
	srqn     uint32
	postRecv func(*verbs.RecvWR) error
	inCQ     *verbs.CQ
	order    bool // the network keeps it, and repeats nothing

	source, landing, target, words *verbs.MR

	messages  []*step // that take a receive
	recv      *verbs.MR
	recvOff   []int
	posting   int    // receives posted
	received  int    // completions of receives
	delivered int    // unreliable: messages up to here were delivered or lost
	nextSent  uint64 // the work request that can complete next
	nextGot   uint64 // and the receive
}

// runTransports has queue pairs of all transports carry out all their operations.
func runTransports(w *world) error {
	typ := []verbs.QPType{verbs.RC, verbs.RC, verbs.UC, verbs.UD, verbs.XRCIni}[w.rand.IntN(5)]
	s := newSetup(w.rand, typ)
	w.tell(", %v, %d pairs, %d operations, MTU %v, depths %d and %d", typ, s.pairs, s.steps, s.connect.MTU, s.sendDepth,
		s.recvDepth)
	c, err := newConversation(w, s)
	if err != nil {
		return err
	}
	return c.run(limit)
}

// newConversation makes queue pairs, memory and plans.
func newConversation(w *world, s setup) (*conversation, error) {
	c := &conversation{setup: s, w: w, rand: w.rand, watch: newPatienceWatch()}
	w.net.Watch = c.watch
	for i := range c.pds {
		var err error
		if c.pds[i], err = w.devs[i].AllocPD(); err != nil {
			return nil, err
		}
	}
	for i := range s.pairs {
		if err := c.addPair(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// convEnd is one of a pair's queue pairs.
type convEnd struct {
	qp             *verbs.QP
	ep             verbs.Endpoint
	sendCQ, recvCQ *verbs.CQ
	postRecv       func(*verbs.RecvWR) error
	srqn           uint32
}

func (c *conversation) addPair(i int) error {
	var ends [2]*convEnd
	for k := range ends {
		var err error
		if ends[k], err = c.newEnd(k); err != nil {
			return err
		}
	}
	for k, e := range ends {
		var err error
		if c.typ == verbs.UD {
			err = e.qp.StartUD(dataQKey)
		} else {
			c.watch.connected(c.w.hosts[k], e.qp.Num(), ends[1-k].qp.Num())
			err = e.qp.Connect(e.ep, ends[1-k].ep, &c.connect)
		}
		if err != nil {
			return err
		}
	}
	if err := c.addWay(fmt.Sprintf("pair %d, there", i), 0, ends[0], ends[1]); err != nil || c.typ == verbs.XRCIni {
		return err
	}
	return c.addWay(fmt.Sprintf("pair %d, back", i), 1, ends[1], ends[0])
}

// newEnd makes the queue pair of a host.
func (c *conversation) newEnd(host int) (e *convEnd, err error) {
	e = &convEnd{}
	dev := c.w.devs[host]
	opt := c.w.cqOptions()
	if e.sendCQ, err = dev.CreateCQ(c.steps, opt); err != nil {
		return nil, err
	}
	if e.recvCQ, err = dev.CreateCQ(c.recvDepth, opt); err != nil {
		return nil, err
	}
	if c.typ == verbs.XRCIni && host == 1 {
		err = e.openTarget(c, dev)
	} else {
		init := verbs.QPInit{Type: c.typ, SendCQ: e.sendCQ,
			Cap: verbs.QPCap{MaxSendWR: c.sendDepth, MaxSendSGE: maxPieces, MaxInline: maxInline}}
		if c.typ != verbs.XRCIni {
			init.RecvCQ, init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = e.recvCQ, c.recvDepth, maxPieces
		}
		if e.qp, err = c.pds[host].CreateQP(init); err == nil {
			e.postRecv = e.qp.PostRecv
		}
	}
	if err != nil {
		return nil, err
	}
	c.close = append(c.close, e.qp.Close)
	if e.ep, err = e.qp.Endpoint(0); err == nil && c.wrap {
		e.ep.PSN = verbs.PSN(1<<24 - 1 - c.rand.IntN(20))
	}
	return e, err
}

// openTarget makes the target of an XRC connection, with a receive queue.
func (e *convEnd) openTarget(c *conversation, dev *verbs.Device) error {
	domain, err := dev.OpenXRCD()
	if err != nil {
		return err
	}
	srq, err := c.pds[1].CreateSRQ(verbs.SRQInit{MaxWR: c.recvDepth, MaxSGE: maxPieces, XRCD: domain, CQ: e.recvCQ})
	if err != nil {
		return err
	}
	e.postRecv, e.srqn = srq.PostRecv, srq.Num()
	e.qp, err = domain.CreateTargetQP(verbs.QPInit{})
	return err
}

// region registers n bytes between guards.
func (c *conversation) region(host, n int, access verbs.Access) (*verbs.MR, error) {
	whole := bytes.Repeat([]byte{guardByte}, guardLen+(n+7)&^7+guardLen)
	inner := whole[guardLen : guardLen+max(n, 1)]
	clear(inner)
	c.areas = append(c.areas, area{whole, inner})
	return c.pds[host].RegMR(inner, access)
}

func (c *conversation) addWay(name string, from int, out, in *convEnd) error {
	path := c.w.net.Default
	y := &way{c: c, name: name, plan: newPlan(c.rand, c.typ, c.steps, c.connect.MTU.Bytes(), c.maxLen), out: out.qp,
		outCQ: out.sendCQ, peer: in.qp.Num(), srqn: in.srqn, postRecv: in.postRecv, inCQ: in.recvCQ,
		order: path.Duplicate == 0 && path.Reorder == 0}
	for i := range y.rand {
		y.rand[i] = rand.New(rand.NewPCG(c.rand.Uint64(), 5))
	}
	p := y.plan
	total := 0
	for i := range p.steps {
		if st := &p.steps[i]; st.receives() {
			y.messages = append(y.messages, st)
			y.recvOff = append(y.recvOff, total)
			total += y.room(st)
		}
	}
	y.recvOff = append(y.recvOff, total)
	if !c.reliable() {
		total = c.recvDepth * y.room(nil)
	}
	var err error
	reg := func(host, n int, access verbs.Access) (mr *verbs.MR) {
		if err == nil {
			mr, err = c.region(host, n, access)
		}
		return mr
	}
	y.source = reg(from, len(p.source), 0)
	y.landing = reg(from, p.landing, verbs.LocalWrite)
	y.target = reg(1-from, targetLen, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.FlushGlobal)
	y.words = reg(1-from, wordsLen, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
	y.recv = reg(1-from, total, verbs.LocalWrite)
	if err != nil {
		return err
	}
	y.source.Do(func(b []byte) { copy(b, p.source) })
	if c.typ == verbs.UD {
		to := verbs.AHAttr{DGID: in.ep.GID}
		if c.w.fabric != nil {
			to = verbs.AHAttr{DLID: in.ep.LID}
		}
		if y.ah, err = c.pds[from].CreateAH(to); err != nil {
			return err
		}
		c.close = append(c.close, y.ah.Close)
	}
	c.ways = append(c.ways, y)
	return nil
}

// room is how large the receive of a message is. On unreliable transports any message may take it.
func (y *way) room(st *step) int {
	switch y.c.typ {
	case verbs.UC:
		return y.c.maxLen
	case verbs.UD:
		return y.c.maxLen + grhLen
	}
	if st.op == verbs.OpWriteImm {
		return 0
	}
	return st.length
}

// run lets everything happen, within a time, and returns differences from the model.
func (c *conversation) run(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	listen, stop := context.WithCancel(ctx)
	defer stop()
	var senders, receivers sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	fail := func(y *way, err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, fmt.Errorf("%s: %w", y.name, err))
			cancel() // the others need not wait for messages that will not come
		}
	}
	for _, y := range c.ways {
		receivers.Go(func() { fail(y, y.receive(listen)) })
		senders.Go(func() { fail(y, y.send(ctx)) })
	}
	senders.Wait()
	if !c.reliable() && ctx.Err() == nil {
		c.w.net.Sleep(3 * time.Second) // for packets that are still on their way
		stop()
	}
	receivers.Wait()
	if c.broken {
		errs = slices.DeleteFunc(errs, func(err error) bool { return excuse(true, err) == nil })
	}
	if len(errs) == 0 && !c.broken && !c.w.fatal {
		c.w.net.Sleep(time.Second)
		for _, y := range c.ways {
			errs = append(errs, y.check(), y.checkRoundTrip())
		}
		errs = append(errs, c.leftOver(false))
	}
	errs = append(errs, c.checkGuards())
	for _, f := range c.close {
		errs = append(errs, f())
	}
	errs = append(errs, c.leftOver(true), c.watch.ended(c.w.net))
	return c.w.judge(errors.Join(errs...))
}

// leftOver looks for state that queue pairs that are idle, or gone, have left behind in their devices.
func (c *conversation) leftOver(gone bool) error {
	for i, d := range c.w.devs {
		l := driver.DeviceOf(d).(loaded).Load()
		if !gone {
			l.Reorder, l.Flows = 0, 0
		}
		if l != (packetdev.Load{}) {
			return wrongf("host %d still counts %+v, with its queue pairs gone: %v", i, l, gone)
		}
	}
	return nil
}

// loaded is a device that reports the load of its queue pairs.
type loaded interface{ Load() packetdev.Load }

// send posts the steps and takes their completions.
func (y *way) send(ctx context.Context) error {
	var wcs [8]verbs.WC
	pause := 20 * time.Microsecond
	for y.nextSignaled() < len(y.plan.steps) || y.posted < len(y.plan.steps) {
		full, err := y.post()
		if err != nil {
			return err
		}
		n := y.outCQ.Poll(wcs[:])
		switch {
		case n > 0:
			pause = 20 * time.Microsecond
		case full && y.nextSignaled() == y.posted:
			// The queue is full of work requests that complete silently.
			if err := ctx.Err(); err != nil {
				return err
			}
			y.c.w.net.Sleep(pause)
			pause = min(2*pause, 5*time.Millisecond)
			continue
		default:
			if n, err = y.outCQ.Wait(ctx, wcs[:]); err != nil {
				return err
			}
		}
		for i := range wcs[:n] {
			if err := y.sent(&wcs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextSignaled returns the step whose completion comes next.
func (y *way) nextSignaled() int {
	for i := y.polled; i < y.posted; i++ {
		if y.plan.steps[i].flags&verbs.Signaled != 0 {
			return i
		}
	}
	return y.posted
}

// post posts as many steps as fit.
func (y *way) post() (full bool, err error) {
	for y.posted < len(y.plan.steps) {
		wr := y.request(&y.plan.steps[y.posted])
		wr.ID = uint64(y.posted)
		if err := y.out.PostSend(&wr); errors.Is(err, verbs.ErrQueueFull) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("posting step %d: %w", y.posted, err)
		}
		y.posted++
	}
	return false, nil
}

func (y *way) request(st *step) verbs.SendWR {
	wr := verbs.SendWR{Op: st.op, Flags: st.flags, Imm: st.imm, Compare: st.compare, Swap: st.swap, Add: st.swap,
		SRQN: y.srqn, FlushLevel: verbs.FlushToGlobal, FlushScope: st.scope, AH: y.ah, RemoteQPN: y.peer,
		RemoteQKey: dataQKey}
	local := y.source
	switch st.op {
	case verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
		local = y.landing
	case verbs.OpFlush:
		wr.FlushLen = uint32(st.length)
	}
	if st.inline {
		wr.Inline = append([]byte{}, st.data...)
	} else {
		for _, p := range st.pieces {
			wr.SGL = append(wr.SGL, local.SGE(p.off, p.n))
		}
	}
	switch st.op {
	case verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpAtomicWrite:
		wr.Remote = y.words.Remote().At(uint64(st.off))
	default:
		wr.Remote = y.target.Remote().At(uint64(st.off))
	}
	return wr
}

// sent takes a completion of the requester.
func (y *way) sent(wc *verbs.WC) error {
	if err := inOrder("work request", &y.nextSent, wc.ID); err != nil {
		return err
	}
	if wc.Status != verbs.StatusSuccess {
		return fmt.Errorf("step %d: %w", wc.ID, wc.Status.Err())
	}
	want := y.nextSignaled()
	if want == y.posted || wc.ID != uint64(want) {
		return y.wrongf("completion of step %d, want step %d", wc.ID, want)
	}
	st := &y.plan.steps[want]
	if wc.Op != wcOf[st.op] {
		return y.wrongf("step %d is a %v and completed as %v", want, st.op, wc.Op)
	}
	if (st.op == verbs.OpRead || st.op == verbs.OpCompareSwap || st.op == verbs.OpFetchAdd) &&
		int(wc.ByteLen) != st.length {
		return y.wrongf("step %d completed with %d bytes, want %d", want, wc.ByteLen, st.length)
	}
	y.polled = want + 1
	return nil
}

// wrongf returns an error that only a network that changes packets excuses.
func (y *way) wrongf(format string, a ...any) error {
	if y.c.broken {
		return fmt.Errorf(format, a...)
	}
	return wrongf(format, a...)
}

// inOrder holds on every network: a queue's work completes in order, and once.
func inOrder(what string, next *uint64, id uint64) error {
	if id < *next {
		return wrongf("%s %d completed when %d was next", what, id, *next)
	}
	*next = id + 1
	return nil
}

var wcOf = map[verbs.SendOp]verbs.WCOp{verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend,
	verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite, verbs.OpRead: verbs.WCRead,
	verbs.OpCompareSwap: verbs.WCCompareSwap,
	verbs.OpFetchAdd:    verbs.WCFetchAdd,
	verbs.OpAtomicWrite: verbs.WCAtomicWrite, verbs.OpFlush: verbs.WCFlush}

// receive keeps receives posted and takes their completions, until all messages have come or, where some
// may be lost, ctx ends.
func (y *way) receive(ctx context.Context) error {
	var wcs [4]verbs.WC
	for y.received < len(y.messages) || !y.c.reliable() {
		if err := y.postReceives(); err != nil {
			return err
		}
		n, err := y.inCQ.Wait(ctx, wcs[:])
		if err != nil {
			if !y.c.reliable() && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		for i := range wcs[:n] {
			if err := y.got(&wcs[i]); err != nil {
				return err
			}
		}
		if y.c.lateRecv > 0 {
			y.c.w.net.Sleep(time.Duration(y.rand[1].Int64N(y.c.lateRecv)))
		}
	}
	return nil
}

// place returns where in the memory for receives the i-th one is.
func (y *way) place(i int) (off, n int) {
	if y.c.reliable() {
		return y.recvOff[i], y.recvOff[i+1] - y.recvOff[i]
	}
	n = y.room(nil)
	return i % y.c.recvDepth * n, n
}

func (y *way) postReceives() error {
	for ; y.posting-y.received < y.c.recvDepth && (y.posting < len(y.messages) || !y.c.reliable()); y.posting++ {
		off, n := y.place(y.posting)
		wr := verbs.RecvWR{ID: uint64(y.posting)}
		for len(wr.SGL) < maxPieces-1 && n > 1 {
			k := y.rand[1].IntN(n)
			wr.SGL = append(wr.SGL, y.recv.SGE(off, k))
			off, n = off+k, n-k
		}
		wr.SGL = append(wr.SGL, y.recv.SGE(off, n))
		if err := y.postRecv(&wr); err != nil {
			return fmt.Errorf("posting receive %d: %w", y.posting, err)
		}
	}
	return nil
}

// got takes a completion of the responder.
func (y *way) got(wc *verbs.WC) error {
	if err := inOrder("receive", &y.nextGot, wc.ID); err != nil {
		return err
	}
	if wc.Status != verbs.StatusSuccess {
		return fmt.Errorf("receive %d: %w", wc.ID, wc.Status.Err())
	}
	if wc.ID != uint64(y.received) {
		return y.wrongf("completion of receive %d, want receive %d", wc.ID, y.received)
	}
	i := y.received
	y.received++
	at, _ := y.place(i)
	if !y.c.reliable() {
		if !y.find(wc, at) {
			return y.wrongf("receive %d holds no message that was sent", i)
		}
	} else if why := y.differs(y.messages[i], wc, at); why != "" {
		return y.wrongf("message %d: %s", i, why)
	}
	return nil
}

// differs says how a received message differs from the sent one.
func (y *way) differs(st *step, wc *verbs.WC, at int) (why string) {
	op, n, from := verbs.WCRecv, st.length, at
	if st.op == verbs.OpWriteImm {
		op = verbs.WCRecvWriteImm
	}
	if y.c.typ == verbs.UD {
		n, from = n+grhLen, at+grhLen
	}
	switch {
	case wc.Op != op:
		return fmt.Sprintf("it is a %v, want %v", wc.Op, op)
	case int(wc.ByteLen) != n:
		return fmt.Sprintf("%d bytes, want %d", wc.ByteLen, n)
	case (wc.Flags&verbs.WithImm != 0) != (st.op != verbs.OpSend) || wc.Flags&verbs.WithImm != 0 && wc.Imm != st.imm:
		return "wrong immediate data"
	}
	mr := y.recv
	if st.op == verbs.OpWriteImm {
		if y.c.reliable() {
			return "" // the bytes may have been written over since
		}
		mr, from = y.target, st.off
	}
	mr.Do(func(b []byte) {
		if !bytes.Equal(b[from:from+st.length], st.data) {
			why = "wrong bytes"
		}
	})
	return why
}

// find looks for a received message among the messages that may have arrived: on a network that keeps the
// order, the messages after the last.
func (y *way) find(wc *verbs.WC, at int) bool {
	from := 0
	if y.order {
		from = y.delivered
	}
	for i := from; i < len(y.messages); i++ {
		if y.differs(y.messages[i], wc, at) == "" {
			y.delivered = i + 1
			return true
		}
	}
	return false
}

// check compares memory with the model.
func (y *way) check() error {
	if !y.c.reliable() {
		return y.checkWrites()
	}
	p := y.plan
	var errs []error
	y.target.Do(func(b []byte) {
		if i := diff(b, p.target); i >= 0 {
			errs = append(errs, wrongf("%s: target differs from the model at byte %d", y.name, i))
		}
	})
	y.words.Do(func(b []byte) {
		if i := diff(b, p.words); i >= 0 {
			errs = append(errs, wrongf("%s: word %d is %x, want %x", y.name, i/8, binary.NativeEndian.Uint64(b[i&^7:]),
				binary.NativeEndian.Uint64(p.words[i&^7:])))
		}
	})
	y.landing.Do(func(b []byte) {
		for i := range p.steps {
			st := &p.steps[i]
			switch st.op {
			case verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
				var got []byte
				for _, pc := range st.pieces {
					got = append(got, b[pc.off:pc.off+pc.n]...)
				}
				if at := diff(got, st.data); at >= 0 {
					errs = append(errs, wrongf("%s: step %d, %v: byte %d of the result is wrong", y.name, i, st.op, at))
				}
			}
		}
	})
	return errors.Join(errs...)
}

// checkRoundTrip checks a queue pair's estimate of the round trip: if only the path's delay takes time, it is the
// delay, and the hosts' time, however often packets were lost. The answer to a packet that was sent twice is no
// sample (RFC 6298 section 3).
func (y *way) checkRoundTrip() error {
	const hosts = time.Millisecond
	path := y.c.w.net.Default
	if !y.c.w.calmly || path.Rate > 0 || path.Reorder > 0 || y.c.w.fabric != nil {
		return nil
	}
	st, err := y.out.Stats()
	if err == nil && st.RTT != 0 && (st.RTT < 2*path.Delay || st.RTT > 2*path.Delay+hosts) {
		err = wrongf("%s: the round trip is said to be %v, and the path takes %v", y.name, st.RTT, 2*path.Delay)
	}
	return err
}

// checkWrites checks UC's WRITEs: every byte was written as it was sent, or not at all.
func (y *way) checkWrites() (err error) {
	y.target.Do(func(target []byte) {
		for i := range y.plan.steps {
			st := &y.plan.steps[i]
			if st.op != verbs.OpWrite && st.op != verbs.OpWriteImm {
				continue
			}
			for k, b := range target[st.off : st.off+st.length] {
				if b != 0 && b != st.data[k] {
					err = wrongf("%s: step %d: byte %d of the target is wrong", y.name, i, k)
					return
				}
			}
		}
	})
	return err
}

// checkGuards holds in broken conversations too: no memory outside of regions is written to, nor memory of
// regions that do not allow that.
func (c *conversation) checkGuards() error {
	for _, a := range c.areas {
		n := len(a.inner)
		for i, b := range a.whole {
			if (i < guardLen || i >= guardLen+n) && b != guardByte {
				return wrongf("byte %d beside a region of %d bytes was written to", i-guardLen, n)
			}
		}
	}
	for _, y := range c.ways {
		bad := -1
		y.source.Do(func(b []byte) { bad = diff(b, y.plan.source) })
		if bad >= 0 {
			return wrongf("%s: byte %d of the source was written to", y.name, bad)
		}
	}
	return nil
}

// diff returns where a and b, of one length, differ first; -1: they don't.
func diff(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
