// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

var noEvents = driver.CQEvents{Completion: func() {}, Error: func() {}}

// pair is a queue pair of a host.
type pair struct {
	*ibta.QP
	host    *host
	to      *peer
	remote  int32  // the peer's host
	entropy uint32 // by which switches choose a path
	run     *run
	left    int   // work requests that have not completed
	due     Time  // of its timer's event; 0: there is none
	arrived int64 // bytes of payload that came
	queued  bool  // has a turn
	over    bool  // destroyed

	hops []congestion.Hop // of the last request that came, for its acknowledgement
}

// run is a flow that has begun.
type run struct {
	flow             *Flow
	requester, other *pair
	messages         int
	posted, done     int
	sampled          int64          // bytes that had arrived at the last sample
	from, to         *memory.Region // of the requester's work requests: local and remote
	datagrams        *datagrams     // nil: it is none of them
}

// happen is that the queue pair's timer has expired.
func (q *pair) happen(s *Sim) {
	if q.over || q.due != s.now {
		return
	}
	q.due = 0
	if d := q.Deadline(); d != 0 && ofEngine(d) <= s.now {
		q.HandleTimeout(s.now.engine())
		q.host.changed(s, q)
		return
	}
	q.arm(s)
}

// arm schedules the timer. An event that is due too early is left alone: it schedules the next.
func (q *pair) arm(s *Sim) {
	d := q.Deadline()
	if d == 0 {
		return
	}
	if at := max(ofEngine(d), s.now); q.due == 0 || at < q.due {
		q.due = at
		s.at(at, q)
	}
}

// newPair makes a queue pair in the RESET state.
func (h *host) newPair(r *run, typ verbs.QPType) *pair {
	for h.last = h.last%maxQPNs + 1; h.last <= 1 || h.qps[h.last] != nil; {
		h.last = h.last%maxQPNs + 1
	}
	q := &pair{host: h, run: r}
	recv := &queue.RecvQueue{PD: domain, MaxWR: max(h.config.Receives, 1), MaxSGE: 1}
	q.QP = ibta.New(&h.dev, &h.lane, queue.Config{Num: h.last, Type: typ, PD: domain, SendCQ: h.cq, RecvCQ: h.cq,
		Recv:  recv,
		Owner: q,
		Caps:  verbs.QPCap{MaxSendWR: maxWRs, MaxRecvWR: recv.MaxWR, MaxSendSGE: 1, MaxRecvSGE: 1}})
	h.qps[h.last] = q
	return q
}

// connect takes two queue pairs to RTS.
func (s *Sim) connect(a, b *pair) error {
	psns := [2]verbs.PSN{verbs.PSN(s.rand.Uint32N(1 << 24)), verbs.PSN(s.rand.Uint32N(1 << 24))}
	entropy := s.rand.Uint32()
	masks := [3]verbs.QPMask{verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess,
		verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN | verbs.MaskMaxDestRdAtomic |
			verbs.MaskMinRNRTimer,
		verbs.MaskSQPSN | verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic}
	for i, q := range [2]*pair{a, b} {
		far, c := [2]*pair{b, a}[i], &s.config.Host
		attr := verbs.QPAttr{Port: 1, Access: access, PathMTU: c.MTU, DestQPN: far.Num, RQPSN: psns[1-i],
			SQPSN: psns[i], AH: far.host.attr(), MaxDestRdAtomic: 16, MaxRdAtomic: 16,
			MinRNRTimer: c.RNRTimer, Timeout: c.Timeout, RetryCount: c.RetryCount, RNRRetry: 7}
		for k, mask := range masks {
			attr.State = verbs.StateInit + verbs.QPState(k)
			if err := q.Modify(&attr, mask|verbs.MaskState); err != nil {
				return err
			}
		}
		q.remote, q.entropy, q.to = far.host.num, entropy+uint32(i), q.AV().Path.(*peer)
	}
	return nil
}

// begin connects the queue pairs of a flow, and posts its first work requests.
func (s *Sim) begin(f *Flow) error {
	typ, most := verbs.RC, s.mostOf(f)
	if f.UD {
		typ = verbs.UD
	}
	r := &run{flow: f, messages: int(max((f.Size+most-1)/most, 1))}
	at, peer := f.Src, f.Dst
	if f.Op == verbs.OpRead {
		at, peer = peer, at
	}
	r.requester, r.other = s.hosts[at].newPair(r, typ), s.hosts[peer].newPair(r, typ)
	connect := s.connect
	if f.UD {
		connect = s.openDatagrams
	}
	if err := connect(r.requester, r.other); err != nil {
		return err
	}
	r.from, r.to = s.hosts[at].region, s.hosts[peer].region
	if s.config.Payload {
		sink := f.Size
		if f.UD {
			sink = int64(s.datagramReceives(r) * s.datagramReceive())
		}
		r.from, r.to = s.newRegion(at, f.Size), s.newRegion(peer, sink)
		fill(r.source().Bytes(), r.requester.entropy)
	}
	s.running[r] = struct{}{}
	if s.config.Trace > 0 && len(s.traced) < TracedFlows {
		s.traced = append(s.traced, r)
	}
	switch {
	case f.UD:
		for i := range s.datagramReceives(r) {
			s.postDatagram(r, i)
		}
	case f.Op == verbs.OpSend:
		for i := range min(r.messages, s.config.Host.Receives) {
			s.postReceive(r, i)
		}
	}
	return s.post(r)
}

func (s *Sim) newRegion(at int32, n int64) *memory.Region {
	m, _ := s.hosts[at].dev.Memory.Register(domain, make([]byte, n), access)
	return m
}

// source and sink are the memory that a flow's payload comes from and goes to.
func (r *run) source() *memory.Region {
	if r.flow.Op == verbs.OpRead {
		return r.to
	}
	return r.from
}

func (r *run) sink() *memory.Region {
	if r.flow.Op == verbs.OpRead {
		return r.from
	}
	return r.to
}

// fill writes bytes that follow from a seed.
func fill(b []byte, seed uint32) {
	for i := range b {
		b[i] = byte(mix(seed+uint32(i)>>2) >> (8 * (i & 3)))
	}
}

// mostOf is the most bytes of a flow's messages.
func (s *Sim) mostOf(f *Flow) int64 {
	if f.UD {
		return int64(s.config.Host.MTU.Bytes())
	}
	return int64(s.config.Message)
}

// message returns where a message is in the flow's memory.
func (s *Sim) message(r *run, i int) (off uint64, n uint32) {
	most := s.mostOf(r.flow)
	at := int64(i) * most
	n = uint32(min(r.flow.Size-at, most))
	if s.config.Payload {
		off = uint64(at)
	}
	return off, n
}

// post posts work requests, as many as may be posted at once.
func (s *Sim) post(r *run) error {
	q, h := r.requester, r.requester.host
	for r.posted < r.messages && q.left < maxWRs {
		off, n := s.message(r, r.posted)
		h.sges[0] = verbs.SGE{Addr: r.from.Addr() + off, Length: n, LKey: r.from.Key()}
		h.wrs[0] = verbs.SendWR{ID: uint64(r.posted), Op: r.flow.Op, Flags: verbs.Signaled, SGL: h.sges[:]}
		switch {
		case r.flow.UD:
			h.wrs[0].Op, h.wrs[0].Imm = verbs.OpSendImm, uint32(r.posted)
			h.wrs[0].AH, h.wrs[0].RemoteQPN, h.wrs[0].RemoteQKey = r.datagrams.to, r.other.Num, qkey
		case r.flow.Op != verbs.OpSend:
			h.wrs[0].Remote = verbs.Remote{Addr: r.to.Addr() + off, Key: r.to.Key()}
		}
		if _, err := q.PostSend(h.wrs[:]); err != nil {
			return err
		}
		r.posted++
		q.left++
	}
	h.give(q)
	h.port.wake(s)
	return nil
}

// postReceive posts the receive for a message.
func (s *Sim) postReceive(r *run, i int) {
	h := r.other.host
	off, n := s.message(r, i)
	h.sges[0] = verbs.SGE{Addr: r.to.Addr() + off, Length: n, LKey: r.to.Key()}
	h.recvs[0] = verbs.RecvWR{ID: uint64(i), SGL: h.sges[:]}
	if _, err := r.other.PostRecv(h.recvs[:]); err != nil {
		s.fail(err)
	}
}

// completed takes a completion of a queue pair.
func (s *Sim) completed(q *pair, wc *verbs.WC) {
	r := q.run
	switch {
	case wc.Status != verbs.StatusSuccess:
		if r.flow.Status == verbs.StatusSuccess {
			r.flow.Status = wc.Status
		}
		s.finish(r)
	case q == r.other && r.flow.UD:
		s.receivedDatagram(r, wc)
	case q == r.other: // a receive
		if next := int(wc.ID) + s.config.Host.Receives; next < r.messages {
			s.postReceive(r, next)
		}
	default:
		q.left--
		if r.done++; r.done == r.messages {
			if !r.flow.UD { // datagrams are still on their way
				s.finish(r)
			}
		} else if err := s.post(r); err != nil {
			s.fail(err)
		}
	}
}

// finish ends a flow.
func (s *Sim) finish(r *run) {
	if r.requester.over {
		return
	}
	f := r.flow
	f.End = s.now
	switch {
	case f.UD && f.Delivered > 0:
		f.End = r.datagrams.last
	case !f.UD && f.Status == verbs.StatusSuccess:
		f.Delivered = f.Size
	default:
		f.Delivered = r.delivered()
	}
	if f.Status == verbs.StatusSuccess && s.config.Payload && !f.UD {
		s.Compared += f.Size
		if !bytes.Equal(r.source().Bytes(), r.sink().Bytes()) {
			s.fail(fmt.Errorf("flow from host %d to host %d: what has arrived differs from what was sent", f.Src,
				f.Dst))
		}
	}
	delete(s.running, r)
	for i, q := range [2]*pair{r.requester, r.other} {
		f.Retransmitted += int(q.Counts.Retransmitted)
		s.Counts.add(q)
		q.Destroy()
		q.over = true
		h := q.host
		delete(h.qps, q.Num)
		h.giveWaiting(q.to)
		h.port.wake(s)
		if s.config.Payload {
			h.dev.Memory.Deregister([2]*memory.Region{r.from, r.to}[i])
		}
	}
	s.Ended++
	s.follow(f)
}

// delivered is how many bytes of a flow that runs have arrived. Bytes that were sent again may count twice.
func (r *run) delivered() int64 {
	switch {
	case r.flow.UD:
		return r.flow.Delivered
	case r.flow.Op == verbs.OpRead:
		return min(r.requester.arrived, r.flow.Size)
	}
	return min(r.other.arrived, r.flow.Size)
}

// addrs returns the addresses and UDP ports of a queue pair's packets.
func addrs(src, dst int32, entropy uint32) (from, to netip.AddrPort) {
	const dynamic = 0xc000 // the first of the ports that RoCEv2 sends from
	return netip.AddrPortFrom(addressOf(src), dynamic|uint16(entropy)&0x3fff),
		netip.AddrPortFrom(addressOf(dst), ib.UDPPort)
}

// flowOf returns the pseudo header for the ICRCs of a queue pair's packets.
func (s *Sim) flowOf(src, dst int32, entropy uint32) ib.PseudoHeader {
	from, to := addrs(src, dst, entropy)
	return ib.NewPseudoHeader(from, to, true)
}
