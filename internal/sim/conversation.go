// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Setup says what a conversation is like.
type Setup struct {
	Type      verbs.QPType // RC, UC, UD, or XRCIni for XRC in one direction
	Pairs     int          // of queue pairs between the two hosts
	Steps     int          // operations of each side
	MaxLen    int          // bytes of a message
	Window    int          // of the flow
	SendDepth int          // work requests in a send queue
	RecvDepth int          // receives that are posted at once
	LateRecv  ibta.Time    // receives are posted up to so much later than they could be
	Burst     int
	AckDelay  ibta.Time
	Link      Link
	Params    Params
	// Broken says that packets are changed on their way: what arrives is not compared, and
	// work may fail.
	Broken bool
}

// RandomSetup makes up a setup of queue pairs of type typ.
func RandomSetup(n *Net, typ verbs.QPType) Setup {
	r := n.Rand
	s := Setup{Type: typ, Pairs: 1 + r.IntN(3), Steps: 10 + r.IntN(60), Window: 64<<10 + r.IntN(512<<10),
		SendDepth: 1 + r.IntN(32), RecvDepth: 1 + r.IntN(16), Burst: 1 + r.IntN(8), Params: Defaults}
	p := &s.Params
	p.MTU = verbs.MTU256 + verbs.MTU(r.IntN(5))
	p.Timeout = uint8(14 + r.IntN(4)) // more than the slowest link takes for a window
	p.RdAtomic = uint8(1 + r.IntN(8))
	p.MinRNRTimer = uint8(1 + r.IntN(14))
	s.MaxLen = targetLen
	if typ == verbs.UC { // any message may take any receive
		s.MaxLen = 24 * p.MTU.Bytes()
	}
	if typ == verbs.UD {
		s.MaxLen = 4096
	}
	if r.IntN(2) == 0 {
		s.LateRecv = ibta.Time(r.IntN(int(2 * time.Millisecond)))
	}
	if r.IntN(2) == 0 {
		s.AckDelay = ibta.Time(1 + r.IntN(int(20*time.Microsecond)))
	}
	l := &s.Link
	l.Delay = ibta.Time(r.IntN(int(200 * time.Microsecond)))
	l.Rate = int64(1e8) << r.IntN(8)
	if r.IntN(2) == 0 {
		l.PerPacket = ibta.Time(r.IntN(5000))
	}
	if r.IntN(4) > 0 {
		l.Loss, l.Corrupt = r.Float64()*0.05, r.Float64()*0.01
	}
	if r.IntN(2) == 0 {
		l.Duplicate = r.Float64() * 0.05
	}
	if r.IntN(2) == 0 {
		l.Reorder, l.Jitter = r.Float64()*0.1, ibta.Time(1+r.IntN(int(300*time.Microsecond)))
		if r.IntN(4) == 0 {
			l.Reorder, l.Jitter = 5*l.Reorder, 10*l.Jitter
		}
	}
	if r.IntN(3) == 0 {
		l.Buffer = 32<<10 + r.IntN(256<<10)
	}
	return s
}

const (
	maxInline = 64
	maxPieces = 4
	guardLen  = 64
	guardByte = 0xa5
	grhLen    = 40
	// maxPackets is many times what a conversation needs.
	maxPackets = 1_000_000
)

// Conversation is two hosts at work.
type Conversation struct {
	Setup
	Net   *Net
	Hosts [2]*Host
	sides []*side
	err   error
	areas []area
}

// area is registered memory between two guards that nothing may write to.
type area struct{ whole, inner []byte }

// side is the requester of one queue pair and the responder of the other.
type side struct {
	c        *Conversation
	name     string
	plan     *plan
	from, to *QP
	posted   int
	polled   int // steps up to here have completed, if they were signaled
	retry    bool

	source, landing, target, words *verbs.MR

	queue     *ibta.RecvQueue // where the receives are posted
	srqn      uint32
	messages  []*step // that take a receive
	recv      *verbs.MR
	recvOff   []int
	posting   int    // receives posted
	received  int    // completions of receives
	delivered int    // unreliable: messages up to here were delivered or lost
	nextSent  uint64 // the work request that can complete next
	nextGot   uint64 // and the receive
	ah        *verbs.AH
}

// NewConversation prepares one: hosts, queue pairs, memory, plans.
func NewConversation(n *Net, s Setup) (*Conversation, error) {
	c := &Conversation{Setup: s, Net: n}
	for i := range c.Hosts {
		c.Hosts[i] = n.NewHost(s.Window)
		c.Hosts[i].Burst, c.Hosts[i].AckDelay = max(1, s.Burst), s.AckDelay
	}
	n.Connect(c.Hosts[0], c.Hosts[1], s.Link, s.Link)
	for i := range s.Pairs {
		if err := c.addPair(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Conversation) addPair(i int) error {
	caps := verbs.QPCap{MaxSendWR: c.SendDepth, MaxRecvWR: c.RecvDepth, MaxSendSGE: maxPieces, MaxRecvSGE: maxPieces, MaxInline: maxInline}
	types := [2]verbs.QPType{c.Type, c.Type}
	configs := [2]ibta.Config{}
	if c.Type == verbs.XRCIni {
		types[1] = verbs.XRCTgt
		q := &ibta.RecvQueue{PD: pdNum, MaxWR: c.RecvDepth, MaxSGE: maxPieces, Shared: true, Num: 77}
		configs[1].Domain = &ibta.Domain{Queues: map[uint32]*ibta.RecvQueue{q.Num: q}}
	}
	var qps [2]*QP
	for k, h := range c.Hosts {
		configs[k].Type, configs[k].Caps = types[k], caps
		qps[k] = h.NewQP(configs[k])
	}
	if err := Join(qps[0], qps[1], c.Params); err != nil {
		return err
	}
	c.addSide(fmt.Sprintf("pair %d, there", i), qps[0], qps[1])
	if c.Type != verbs.XRCIni {
		c.addSide(fmt.Sprintf("pair %d, back", i), qps[1], qps[0])
	}
	return nil
}

// region registers n bytes between guards.
func (c *Conversation) region(h *Host, n int, access verbs.Access) *verbs.MR {
	whole := bytes.Repeat([]byte{guardByte}, guardLen+(n+7)&^7+guardLen)
	inner := whole[guardLen : guardLen+max(n, 1)]
	clear(inner)
	c.areas = append(c.areas, area{whole, inner})
	mr, err := h.PD.RegMR(inner, access)
	if err != nil {
		panic(err)
	}
	return mr
}

func (c *Conversation) addSide(name string, from, to *QP) {
	s := &side{c: c, name: name, from: from, to: to, plan: newPlan(c.Net.Rand, from.Type, c.Steps, c.Params.MTU.Bytes(), c.MaxLen)}
	p := s.plan
	s.source = c.region(from.Host, len(p.source), 0)
	copy(s.source.Bytes(), p.source)
	s.landing = c.region(from.Host, p.landing, verbs.LocalWrite)
	s.target = c.region(to.Host, targetLen, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.FlushGlobal|verbs.FlushPersistent)
	s.words = c.region(to.Host, wordsLen, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
	s.queue = to.Recv
	if d := to.Domain; d != nil {
		s.srqn = 77
		s.queue = d.Queues[s.srqn]
	}
	total := 0
	for i := range p.steps {
		if st := &p.steps[i]; st.receives() {
			s.messages = append(s.messages, st)
			s.recvOff = append(s.recvOff, total)
			total += s.room(st)
		}
	}
	s.recvOff = append(s.recvOff, total)
	s.recv = c.region(to.Host, total, verbs.LocalWrite)
	if c.Type == verbs.UD {
		s.ah, _ = from.Host.PD.CreateAH(verbs.AHAttr{DGID: to.Host.GID()})
	}
	c.sides = append(c.sides, s)
	onWC(from, s.sent)
	onWC(to, s.got)
}

// onWC adds a listener to the completions of a queue pair.
func onWC(q *QP, f func(*verbs.WC, bool)) {
	before := q.OnWC
	q.OnWC = func(wc *verbs.WC, solicited bool) {
		if before != nil {
			before(wc, solicited)
		}
		f(wc, solicited)
	}
}

// room is how large the receive of a message is. On unreliable transports any message may
// take it.
func (s *side) room(st *step) int {
	switch s.c.Type {
	case verbs.UC:
		return s.c.MaxLen
	case verbs.UD:
		return s.c.MaxLen + grhLen
	}
	if st.op == verbs.WriteImm {
		return 0
	}
	return st.length
}

// fail notes the first thing that went wrong.
func (c *Conversation) fail(s *side, format string, a ...any) {
	if c.err == nil && !c.Broken {
		c.err = fmt.Errorf("%s, at %v: %s", s.name, time.Duration(c.Net.now), fmt.Sprintf(format, a...))
	}
}

// Run lets everything happen, within a time, and returns what was not as the model says.
func (c *Conversation) Run(limit ibta.Time) error {
	for _, s := range c.sides {
		s.postReceives()
		s.post()
	}
	finished := c.Net.Run(limit, func() bool {
		if c.Net.Stats.Packets > maxPackets {
			c.fail(c.sides[0], "%d packets and no end: %+v", c.Net.Stats.Packets, c.Net.Stats)
		}
		return c.err != nil || c.done() || c.Net.Stats.Packets > maxPackets
	})
	if c.err == nil && c.reliable() && !c.Broken && !finished {
		for _, s := range c.sides {
			if !s.done() {
				c.fail(s, "stuck: %d of %d steps posted, up to %d completed, %d of %d messages received", s.posted, len(s.plan.steps),
					s.polled, s.received, len(s.messages))
			}
		}
	}
	if c.err == nil {
		c.Net.Run(c.Net.now+ibta.Time(5*time.Second), func() bool { return false }) // what is still on its way
		c.check()
	}
	return c.err
}

func (c *Conversation) reliable() bool { return c.Type == verbs.RC || c.Type == verbs.XRCIni }

func (c *Conversation) done() bool {
	for _, s := range c.sides {
		if !s.done() {
			return false
		}
	}
	return true
}

func (s *side) done() bool {
	return s.posted == len(s.plan.steps) && s.nextSignaled() == len(s.plan.steps) && s.received == len(s.messages)
}

// nextSignaled returns the step whose completion comes next.
func (s *side) nextSignaled() int {
	for i := s.polled; i < s.posted; i++ {
		if s.plan.steps[i].flags&verbs.Signaled != 0 {
			return i
		}
	}
	return s.posted
}

// post posts as many steps as fit, and tries again a little later.
func (s *side) post() {
	for s.posted < len(s.plan.steps) {
		st := &s.plan.steps[s.posted]
		wr := s.request(st)
		wr.ID = uint64(s.posted)
		s.posted++ // first: it may complete within
		if _, err := s.from.Post(wr); err != nil {
			s.posted--
			if s.from.State() != verbs.RTS {
				s.c.fail(s, "posting step %d: %v", s.posted, err)
				return
			}
			break
		}
	}
	if s.posted < len(s.plan.steps) && !s.retry {
		s.retry = true
		wait := 20 * time.Microsecond
		if s.c.Broken {
			wait = time.Millisecond // it may never go on
		}
		s.c.Net.After(ibta.Time(wait), func() { s.retry = false; s.post() })
	}
}

func (s *side) request(st *step) verbs.SendWR {
	wr := verbs.SendWR{Op: st.op, Flags: st.flags, Imm: st.imm, Compare: st.compare, Swap: st.swap, SRQN: s.srqn,
		FlushLevel: st.level, FlushScope: st.scope, AH: s.ah, RemoteQPN: s.to.Num, RemoteQKey: s.c.Params.QKey}
	local := s.source
	switch st.op {
	case verbs.Read, verbs.CompareSwap, verbs.FetchAdd:
		local = s.landing
	case verbs.Flush:
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
	case verbs.CompareSwap, verbs.FetchAdd, verbs.AtomicWrite:
		wr.Remote = s.words.Remote().At(uint64(st.off))
	default:
		wr.Remote = s.target.Remote().At(uint64(st.off))
	}
	return wr
}

// postReceives keeps receives posted.
func (s *side) postReceives() {
	for s.posting < len(s.messages) && s.queue.Len() < s.c.RecvDepth {
		off := s.recvOff[s.posting]
		n := s.recvOff[s.posting+1] - off
		wr := verbs.RecvWR{ID: 1<<32 + uint64(s.posting)}
		for len(wr.SGL) < maxPieces-1 && n > 1 {
			k := s.c.Net.Rand.IntN(n)
			wr.SGL = append(wr.SGL, s.recv.SGE(off, k))
			off, n = off+k, n-k
		}
		wr.SGL = append(wr.SGL, s.recv.SGE(off, n))
		if _, err := s.queue.Post([]verbs.RecvWR{wr}); err != nil {
			s.c.fail(s, "posting receive %d: %v", s.posting, err)
			return
		}
		s.posting++
	}
}

// sent takes a completion of the requester.
func (s *side) sent(wc *verbs.WC, _ bool) {
	if wc.ID >= 1<<32 {
		return
	}
	s.c.inOrder(s, "work request", &s.nextSent, wc.ID)
	if s.c.Broken {
		return
	}
	want := s.nextSignaled()
	if want == s.posted || wc.ID != uint64(want) || wc.Status != verbs.Success {
		s.c.fail(s, "completion of step %d with %v, want step %d", wc.ID, wc.Status, want)
		return
	}
	st := &s.plan.steps[want]
	if wc.Op != wcOf[st.op] {
		s.c.fail(s, "step %d is a %v and completed as %v", want, st.op, wc.Op)
	}
	if st.data != nil && (st.op == verbs.Read || st.op == verbs.CompareSwap || st.op == verbs.FetchAdd) && int(wc.ByteLen) != st.length {
		s.c.fail(s, "step %d completed with %d bytes, want %d", want, wc.ByteLen, st.length)
	}
	s.polled = want + 1
	s.post()
}

var wcOf = map[verbs.SendOp]verbs.WCOp{verbs.Send: verbs.WCSend, verbs.SendImm: verbs.WCSend, verbs.Write: verbs.WCWrite,
	verbs.WriteImm: verbs.WCWrite, verbs.Read: verbs.WCRead, verbs.CompareSwap: verbs.WCCompareSwap, verbs.FetchAdd: verbs.WCFetchAdd,
	verbs.AtomicWrite: verbs.WCAtomicWrite, verbs.Flush: verbs.WCFlush}

// got takes a completion of the responder.
func (s *side) got(wc *verbs.WC, solicited bool) {
	if wc.ID < 1<<32 {
		return
	}
	s.c.inOrder(s, "receive", &s.nextGot, wc.ID-1<<32)
	if s.c.Broken {
		s.c.Net.After(s.c.late(), s.postReceives)
		return
	}
	if wc.ID != 1<<32+uint64(s.received) || wc.Status != verbs.Success {
		s.c.fail(s, "completion of receive %d with %v, want receive %d", wc.ID-1<<32, wc.Status, s.received)
		return
	}
	i := s.received
	s.received++
	at := s.recvOff[i]
	if s.c.reliable() {
		if why := s.differs(s.messages[i], wc, at, solicited); why != "" {
			s.c.fail(s, "message %d: %s", i, why)
		}
	} else if !s.find(wc, at, solicited) {
		s.c.fail(s, "receive %d holds no message that was sent", i)
	}
	s.c.Net.After(s.c.late(), s.postReceives)
}

// inOrder holds whatever arrives: a queue's work completes in order, and once.
func (c *Conversation) inOrder(s *side, what string, next *uint64, id uint64) {
	if id < *next && c.err == nil {
		c.err = fmt.Errorf("%s: %s %d completed when %d was next", s.name, what, id, *next)
	}
	*next = id + 1
}

func (c *Conversation) late() ibta.Time {
	if c.LateRecv == 0 {
		return 0
	}
	return ibta.Time(c.Net.Rand.Int64N(int64(c.LateRecv)))
}

// differs says how a received message is not the one that was sent.
func (s *side) differs(st *step, wc *verbs.WC, at int, solicited bool) string {
	op, n, from := verbs.WCRecv, st.length, at
	if st.op == verbs.WriteImm {
		op = verbs.WCRecvWriteImm
	}
	if s.c.Type == verbs.UD {
		n, from = n+grhLen, at+grhLen
	}
	switch {
	case wc.Op != op:
		return fmt.Sprintf("it is a %v, want %v", wc.Op, op)
	case int(wc.ByteLen) != n:
		return fmt.Sprintf("%d bytes, want %d", wc.ByteLen, n)
	case (wc.Flags&verbs.WithImm != 0) != (st.op != verbs.Send) || wc.Flags&verbs.WithImm != 0 && wc.Imm != st.imm:
		return "wrong immediate data"
	case solicited != (st.flags&verbs.Solicited != 0):
		return "solicited or not"
	case st.op != verbs.WriteImm && !bytes.Equal(s.recv.Bytes()[from:from+st.length], st.data):
		return "wrong bytes"
	}
	return ""
}

// find looks for a received message among those that may have arrived: on a network that
// keeps the order, those after the last.
func (s *side) find(wc *verbs.WC, at int, solicited bool) bool {
	l := &s.c.Link
	from := s.delivered
	if l.Duplicate > 0 || l.Reorder > 0 {
		from = 0
	}
	for i := from; i < len(s.messages); i++ {
		if s.differs(s.messages[i], wc, at, solicited) == "" {
			s.delivered = i + 1
			return true
		}
	}
	return false
}

// check compares the memory with the model, and looks for what was left behind.
func (c *Conversation) check() {
	for _, s := range c.sides {
		if c.reliable() {
			s.checkMemory()
		} else {
			s.checkWrites()
		}
	}
	c.checkGuards()
	for i, h := range c.Hosts {
		requests, reads := h.Flow(c.Hosts[1-i].GID()).InFlight()
		if (requests != 0 || reads != 0) && !c.Broken {
			c.fail(c.sides[0], "the flow of host %d still counts %d bytes of requests and %d of READs", i, requests, reads)
		}
	}
}

func (s *side) checkMemory() {
	p := s.plan
	if i := diff(s.target.Bytes(), p.target); i >= 0 {
		s.c.fail(s, "target differs from the model at byte %d", i)
	}
	if i := diff(s.words.Bytes(), p.words); i >= 0 {
		s.c.fail(s, "word %d is %x, want %x", i/8, binary.NativeEndian.Uint64(s.words.Bytes()[i&^7:]), binary.NativeEndian.Uint64(p.words[i&^7:]))
	}
	for i := range p.steps {
		st := &p.steps[i]
		switch st.op {
		case verbs.Read, verbs.CompareSwap, verbs.FetchAdd:
			var got []byte
			for _, pc := range st.pieces {
				got = append(got, s.landing.Bytes()[pc.off:pc.off+pc.n]...)
			}
			if at := diff(got, st.data); at >= 0 {
				s.c.fail(s, "step %d, %v: byte %d of the result is wrong", i, st.op, at)
			}
		}
	}
}

// checkWrites checks UC's WRITEs: every byte was written as it was sent, or not at all.
func (s *side) checkWrites() {
	for i := range s.plan.steps {
		st := &s.plan.steps[i]
		if st.op != verbs.Write && st.op != verbs.WriteImm {
			continue
		}
		for k, b := range s.target.Bytes()[st.off : st.off+st.length] {
			if b != 0 && b != st.data[k] {
				s.c.fail(s, "step %d: byte %d of the target is wrong", i, k)
				return
			}
		}
	}
}

// checkGuards holds in broken conversations too: nothing outside of regions is written to,
// nor what a region does not allow.
func (c *Conversation) checkGuards() {
	for _, a := range c.areas {
		n := len(a.inner)
		for i, b := range a.whole {
			if (i < guardLen || i >= guardLen+n) && b != guardByte && c.err == nil {
				c.err = fmt.Errorf("byte %d beside a region of %d bytes was written to", i-guardLen, n)
			}
		}
	}
	for _, s := range c.sides {
		if i := diff(s.source.Bytes(), s.plan.source); i >= 0 && c.err == nil {
			c.err = fmt.Errorf("%s: byte %d of the source was written to", s.name, i)
		}
	}
}

// diff returns where a and b, of one length, differ first; -1: they don't.
func diff(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Close destroys all queue pairs and says what they left behind.
func (c *Conversation) Close() error {
	for i, h := range c.Hosts {
		for _, q := range h.qps {
			q.Destroy()
			h.Kick(q)
		}
		if n := h.Device.Early(); n != 0 {
			return fmt.Errorf("host %d: with all queue pairs gone %d bytes of packets are kept", i, n)
		}
		f := h.Flow(c.Hosts[1-i].GID())
		if requests, reads := f.InFlight(); requests != 0 || reads != 0 || !f.Unused() || f.Next() != nil {
			return fmt.Errorf("host %d: with all queue pairs gone its flow counts %d bytes of requests and %d of READs", i, requests, reads)
		}
	}
	return nil
}
