// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A script is one queue pair whose peer is the test: it posts, receives packets, wants
// packets, lets time pass, wants completions.
type script struct {
	*testing.T
	host *host
	peer *host
	q    *qp
	flow *ibta.Flow
	mr   *verbs.MR // 16 KiB, everything is allowed
	now  clock.Time
	attr verbs.QPAttr

	batch *ibta.Batch
	out   []ib.Packet
	wcs   []queue.Completion
	evs   []queue.Event
}

const (
	sendPSN ib.PSN    = 100 // of our requests
	recvPSN ib.PSN    = 200 // of the peer's
	peerQPN verbs.QPN = 0x99
	mtu               = 256
	qkey              = verbs.QKey(0x22222222)
	srqn              = 5
)

var everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal |
	verbs.FlushPersistent

// options of a script, changed by the test before the queue pair is made.
type options struct {
	config queue.Config
	attr   verbs.QPAttr
	last   verbs.QPState
	// control is the congestion control; nil: the device's.
	control congestion.Controller
	own     *congestion.Choice // of the queue pair; nil: the device's
}

// start makes a queue pair of type typ in RTS, with a depth of 2, a timeout of 67 ms and
// three retries.
func start(t *testing.T, typ verbs.QPType, change ...func(*options)) *script {
	t.Helper()
	s := &script{T: t, now: 1, batch: ibta.NewBatch(limits(1 << 20))}
	s.host, s.peer = newHosts(t, 1<<20)
	o := &options{last: verbs.StateRTS}
	o.config = queue.Config{Type: typ, Caps: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4,
		MaxInline: 64}}
	o.attr = verbs.QPAttr{Port: 1, Access: everything, QKey: qkey, PathMTU: verbs.MTU256, DestQPN: peerQPN,
		RQPSN: recvPSN, SQPSN: sendPSN, AH: verbs.AHAttr{DGID: s.peer.gid()}, MaxDestRdAtomic: 2, MaxRdAtomic: 2,
		MinRNRTimer: 12, Timeout: 14,
		RetryCount: 3, RNRRetry: 2}
	for _, f := range change {
		f(o)
	}
	if o.control != nil {
		s.host.control = func() congestion.Controller { return o.control }
	}
	s.q = s.host.newQP(o.config)
	s.q.SetCongestion(o.own)
	s.flow = s.host.flow(s.peer.gid())
	s.mr = s.register(16<<10, everything)
	s.attr = o.attr
	s.up(o.attr, o.last)
	return s
}

func (s *script) register(n int, access verbs.Access) *verbs.MR {
	s.Helper()
	mr, err := s.host.pd.RegMR(make([]byte, n), access)
	if err != nil {
		s.Fatal(err)
	}
	return mr
}

// up takes the queue pair from RESET to a state.
func (s *script) up(attr verbs.QPAttr, last verbs.QPState) {
	s.Helper()
	masks := masksUp(s.q.Type)
	for i, state := range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		if state > last {
			break
		}
		attr.State = state
		s.modify(attr, masks[i])
	}
}

func (s *script) modify(attr verbs.QPAttr, mask verbs.QPMask) {
	s.Helper()
	if err := s.q.Modify(&attr, mask|verbs.MaskState); err != nil {
		s.Fatal(err)
	}
	s.drain()
}

func (s *script) state(st verbs.QPState) { s.Helper(); s.modify(verbs.QPAttr{State: st}, 0) }

func (s *script) wantState(st verbs.QPState) {
	s.Helper()
	if s.q.State() != st {
		s.Fatalf("state %v, want %v", s.q.State(), st)
	}
}

// post posts work requests.
func (s *script) post(wrs ...verbs.SendWR) {
	s.Helper()
	if _, err := s.q.PostSend(wrs); err != nil {
		s.Fatal(err)
	}
	s.drain()
}

// receives posts receives of n bytes each, with the numbers given.
func (s *script) receives(n int, ids ...uint64) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.q.PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{s.mr.SGE(0, n)}}}); err != nil {
			s.Fatal(err)
		}
	}
	s.drain()
}

// drain takes the engine's packets, completions and events.
func (s *script) drain() {
	s.Helper()
	for s.q.NextPackets(s.now, s.batch) {
		for i := range s.batch.Len() {
			o := s.batch.Packet(i)
			raw := slices.Concat(o.Head, slices.Concat(o.Payload...), o.Tail)
			var p ib.Packet
			if err := p.Decode(raw[:len(raw)-4]); err != nil {
				s.Fatalf("the engine made a packet that is none: %v", err)
			}
			s.out = append(s.out, p)
		}
	}
	s.wcs = append(s.wcs, s.host.lane.Outbox.Completions...)
	s.evs = append(s.evs, s.host.lane.Outbox.Events...)
	s.host.lane.Outbox.Reset()
}

// packet makes a packet of the peer.
func (s *script) packet(op ib.Operation, psn ib.PSN, payload int) *ib.Packet {
	t := map[verbs.QPType]ib.Transport{verbs.UC: ib.TransportUC, verbs.UD: ib.TransportUD,
		verbs.XRCIni: ib.TransportXRC, verbs.XRCTgt: ib.TransportXRC}[s.q.Type]
	p := &ib.Packet{BTH: ib.BTH{Opcode: t.Join(op), PSN: psn, PKey: ib.DefaultPKey, DestQP: s.q.Num}}
	p.Payload = bytes.Repeat([]byte{byte(psn) | 1}, payload)
	p.DETH = ib.DETH{QKey: qkey, SrcQP: peerQPN}
	p.XRCETH.SRQN = srqn
	p.AckReq = p.Opcode.Info().Last
	p.AETH.Syndrome = ib.Acknowledge(ib.CreditsUnlimited)
	return p
}

// in gives the engine a packet, and drains the engine.
func (s *script) in(p *ib.Packet) ibta.Reason {
	s.Helper()
	r := s.q.HandlePacket(s.now, p, arrival)
	s.drain()
	return r
}

// inWant gives the engine a packet that it is to treat so.
func (s *script) inWant(want ibta.Reason, p *ib.Packet) {
	s.Helper()
	if r := s.in(p); r != want {
		s.Fatalf("%v, PSN %d: %v, want %v", p.Opcode, p.PSN, r, want)
	}
}

func (s *script) ack(psn ib.PSN) { s.Helper(); s.in(s.packet(ib.OpAck, psn, 0)) }

func (s *script) nak(psn ib.PSN, y ib.Syndrome) {
	s.Helper()
	p := s.packet(ib.OpAck, psn, 0)
	p.AETH.Syndrome = y
	s.in(p)
}

// want takes the next packet that the engine sent, which must be this one.
func (s *script) want(op ib.Operation, psn ib.PSN) ib.Packet {
	s.Helper()
	if len(s.out) == 0 {
		s.Fatalf("no packet, want %v", op)
	}
	p := s.out[0]
	s.out = s.out[1:]
	if p.Opcode.Operation() != op || p.PSN != psn {
		s.Fatalf("%v with PSN %d, want operation %#x with PSN %d", p.Opcode, p.PSN, op, psn)
	}
	return p
}

// wantAETH takes an acknowledgement.
func (s *script) wantAETH(psn ib.PSN, y ib.Syndrome) {
	s.Helper()
	if p := s.want(ib.OpAck, psn); p.AETH.Syndrome != y {
		s.Fatalf("%v, want %v", p.AETH.Syndrome, y)
	}
}

// silence wants that nothing more was sent, completed or reported.
func (s *script) silence() {
	s.Helper()
	for _, p := range s.out {
		s.Errorf("packet %v, PSN %d", p.Opcode, p.PSN)
	}
	for _, c := range s.wcs {
		s.Errorf("completion %d, %v", c.WC.ID, c.WC.Status)
	}
	for _, e := range s.evs {
		s.Errorf("event %v", e.Type)
	}
	if s.Failed() {
		s.FailNow()
	}
}

// wantWC takes the next completion.
func (s *script) wantWC(id uint64, status verbs.Status) verbs.WC {
	s.Helper()
	if len(s.wcs) == 0 {
		s.Fatalf("no completion, want that of %d", id)
	}
	wc := s.wcs[0].WC
	s.wcs = s.wcs[1:]
	if wc.ID != id || wc.Status != status || wc.QPN != s.q.Num {
		s.Fatalf("completion of %d with %v, want %d with %v", wc.ID, wc.Status, id, status)
	}
	if status > verbs.StatusSuccess && status != verbs.StatusWRFlushError && len(s.evs) > 0 &&
		s.evs[0].Type == driver.EventQPBroken {
		s.evs = s.evs[1:] // belongs to a send that fails
	}
	return wc
}

// wantEvent takes the next event.
func (s *script) wantEvent(e verbs.EventType) {
	s.Helper()
	if len(s.evs) == 0 || s.evs[0].Type != e {
		s.Fatalf("events %v, want %v", s.evs, e)
	}
	s.evs = s.evs[1:]
}

// pass lets time pass, with a stop at each deadline.
func (s *script) pass(d time.Duration) {
	s.Helper()
	end := s.now + clock.Time(d)
	for {
		due := s.q.Deadline()
		if due == 0 || due > end {
			break
		}
		s.now = max(s.now, due)
		s.q.HandleTimeout(s.now)
		s.drain()
	}
	s.now = end
}

// idle wants that nothing is left under way.
func (s *script) idle() {
	s.Helper()
	if a, b := s.flow.InFlight(); a != 0 || b != 0 {
		s.Errorf("the flow counts %d bytes of requests and %d of READs", a, b)
	}
	s.silence()
}

// arrival is that of a packet from the peer.
var arrival = &ibta.Arrival{From: ibta.PathKey{Port: 1}, Global: true, Header: grh{}}

type grh struct{}

func (grh) AppendGRH(b []byte) []byte { return append(b, make([]byte, 40)...) }

// Work requests on the script's region.

func (s *script) send(id uint64, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, n)}}
}

func (s *script) wr(op verbs.SendOp, id uint64, n int) verbs.SendWR {
	w := s.send(id, n)
	w.Op, w.Remote = op, verbs.Remote{Addr: 0x1000, Key: 0x77}
	w.FlushLevel = verbs.FlushToGlobal
	return w
}

// reth names the script's region, as a peer would.
func (s *script) reth(p *ib.Packet, off int, n uint32) *ib.Packet {
	p.RETH = ib.RETH{VA: s.mr.Addr() + uint64(off), RKey: s.mr.RKey(), DMALen: n}
	p.AtomicETH = ib.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey}
	p.FETH.Placement = ib.PlacementGlobal
	return p
}
