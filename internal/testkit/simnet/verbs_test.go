// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	targetSize = 64 << 10
	words      = 8
	maxSend    = 12 << 10
	recvs      = 16
)

// pair is one of the queue pairs of a side, and its operations on the peer: each has a part of the
// peer's memory that no other writes to, and a model of it.
type pair struct {
	qp   *verbs.QP
	ep   verbs.Endpoint
	rand *rand.Rand

	target, counters verbs.Remote
	model            []byte
	numbers          [words]uint64
	landing          *verbs.MR // for results of READs and atomics, 1 << 15 bytes for each slot
	source           *verbs.MR
	todo             int
	posted, done     int
	checks           []func() error // of each operation in flight
	sent, received   int            // messages
	ended            bool           // the peer's last message has come
}

// verbsSide is one side.
type verbsSide struct {
	w      *world
	num    int
	pd     *verbs.PD
	cq     *verbs.CQ
	srq    *verbs.SRQ
	recv   *verbs.MR
	target *verbs.MR // written by the peer
	words  *verbs.MR
	limit  srqLimit
	pairs  []*pair
	depth  int
}

const slotSize = 1 << 15

// runVerbs has queue pairs send, write, read and add, against a model of the results.
func runVerbs(w *world) error {
	var sides [2]*verbsSide
	pairs, shared := 1+w.rand.IntN(2), w.rand.IntN(2) == 0
	ops, depth := 1+w.rand.IntN(40), 1+w.rand.IntN(12)
	spin := []int{-1, 0}[w.rand.IntN(2)]
	w.tell(", %d queue pairs, shared receives %v, %d operations, %d at once", pairs, shared, ops, depth)
	for i := range sides {
		s := &verbsSide{w: w, num: i, depth: depth}
		sides[i] = s
		if err := s.open(pairs, shared, ops, spin); err != nil {
			return err
		}
	}
	for i, s := range sides {
		peer := sides[1-i]
		for j, p := range s.pairs {
			p.target = peer.target.Remote().At(uint64(j * targetSize))
			p.counters = peer.words.Remote().At(uint64(j * words * 8))
			if err := p.qp.Connect(p.ep, peer.pairs[j].ep, w.patience()); err != nil {
				return err
			}
		}
	}
	if err := w.all(func(ctx context.Context, i int) error { return sides[i].run(ctx) }); err != nil {
		return err
	}
	for i, s := range sides {
		if !w.fatal {
			if err := sides[1-i].compare(s); err != nil {
				return err
			}
			if err := s.limit.ended(w.devs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *verbsSide) open(pairs int, shared bool, ops, spin int) (err error) {
	r := s.w.rand
	if s.pd, err = s.w.devs[s.num].AllocPD(); err != nil {
		return err
	}
	if s.cq, err = s.w.devs[s.num].CreateCQ(1024,
		&verbs.CQOptions{Spin: time.Duration(spin), LockedThread: true}); err != nil {
		return err
	}
	const all = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	reg := func(n int) (mr *verbs.MR) {
		if err == nil {
			mr, err = s.pd.RegMR(make([]byte, n), all)
		}
		return mr
	}
	s.recv, s.target, s.words = reg(pairs*recvs*maxSend), reg(pairs*targetSize), reg(pairs*words*8)
	init := verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: maxPieces, MaxRecvWR: recvs}}
	if shared && err == nil {
		if s.srq, err = s.pd.CreateSRQ(verbs.SRQInit{MaxWR: pairs * recvs, MaxSGE: 1}); err != nil {
			return err
		}
		init.SRQ = s.srq
		s.limit = srqLimit{srq: s.srq, rand: rand.New(rand.NewPCG(r.Uint64(), 2))}
	}
	for range pairs {
		p := &pair{rand: rand.New(rand.NewPCG(r.Uint64(), 1)), model: make([]byte, targetSize), todo: ops}
		p.landing, p.source = reg(s.depth*slotSize), reg(s.depth*slotSize)
		if err != nil {
			return err
		}
		if p.qp, err = s.pd.CreateQP(init); err != nil {
			return err
		}
		if p.ep, err = p.qp.Endpoint(0); err != nil {
			return err
		}
		s.pairs = append(s.pairs, p)
	}
	return nil
}

// run posts and polls until everything is done on both sides.
func (s *verbsSide) run(ctx context.Context) error {
	if err := s.limit.arm(len(s.pairs) * recvs); err != nil {
		return err
	}
	s.w.at(s.num, "posting receives")
	for j := range s.pairs {
		for k := range recvs {
			if err := s.postRecv(j*recvs + k); err != nil && s.pairs[j].qp.State() != verbs.StateError {
				return wrong{err}
			}
		}
	}
	var wcs [8]verbs.WC
	for {
		open := false
		for _, p := range s.pairs {
			if err := s.post(p); err != nil {
				return err
			}
			open = open || p.done <= p.todo || !p.ended
		}
		if !open {
			return nil
		}
		s.w.at(s.num, "waiting for completions")
		n, err := s.cq.Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := s.completed(&wcs[i]); err != nil {
				return err
			}
		}
	}
}

func (s *verbsSide) postRecv(place int) error {
	wr := verbs.RecvWR{ID: 1<<32 | uint64(place), SGL: []verbs.SGE{s.recv.SGE(place*maxSend, maxSend)}}
	if s.srq != nil {
		s.limit.left++
		return s.srq.PostRecv(&wr)
	}
	return s.pairs[place/recvs].qp.PostRecv(&wr)
}

// post posts as many work requests as p may have in flight; its last operation is an empty message.
func (s *verbsSide) post(p *pair) error {
	for p.posted <= p.todo && p.posted-p.done < s.depth {
		slot := p.posted % s.depth
		wr := verbs.SendWR{ID: uint64(p.posted), Flags: verbs.Signaled}
		check := func() error { return nil }
		if p.posted == p.todo {
			wr.Op = verbs.OpSend
		} else {
			check = s.make(p, &wr, slot)
		}
		s.w.at(s.num, "posting "+wr.Op.String())
		if err := p.qp.PostSend(&wr); err != nil {
			return err
		}
		p.checks = append(p.checks, check)
		p.posted++
	}
	return nil
}

// make makes up an operation, and the check for when it has completed.
func (s *verbsSide) make(p *pair, wr *verbs.SendWR, slot int) (check func() error) {
	check = func() error { return nil }
	r, at := p.rand, slot*slotSize
	switch r.IntN(5) {
	case 0, 1:
		wr.Op = verbs.OpSend
		n := 1 + someSize(r, maxSend-1)
		p.source.Do(func(b []byte) { stamp(b[at:at+n], s.num*16+int(s.index(p)), p.sent) })
		p.sent++
		wr.SGL = p.pieces(p.source, at, n)
	case 2:
		// Without the fence a READ before it that is requested again could bring this WRITE's data.
		wr.Op, wr.Flags = verbs.OpWrite, verbs.Signaled|verbs.Fence
		n := someSize(r, slotSize)
		off := r.IntN(targetSize - n + 1)
		p.source.Do(func(b []byte) {
			stamp(b[at:at+n], 1000+s.num, p.posted)
			copy(p.model[off:], b[at:at+n])
		})
		wr.SGL, wr.Remote = p.pieces(p.source, at, n), p.target.At(uint64(off))
	case 3:
		wr.Op = verbs.OpRead
		n := someSize(r, slotSize)
		off := r.IntN(targetSize - n + 1)
		want := bytes.Clone(p.model[off : off+n])
		wr.SGL, wr.Remote = p.pieces(p.landing, at, n), p.target.At(uint64(off))
		check = func() (err error) {
			p.landing.Do(func(b []byte) {
				if !bytes.Equal(b[at:at+n], want) {
					err = wrongf("a READ of %d bytes from %d brought what was not there", n, off)
				}
			})
			return err
		}
	case 4:
		k := r.IntN(words)
		wr.SGL, wr.Remote = []verbs.SGE{p.landing.SGE(at, 8)}, p.counters.At(uint64(k*8))
		want := p.numbers[k]
		if operand := r.Uint64(); r.IntN(2) == 0 {
			wr.Op, wr.Add = verbs.OpFetchAdd, operand
			p.numbers[k] += operand
		} else {
			wr.Op, wr.Compare, wr.Swap = verbs.OpCompareSwap, want, operand
			if r.IntN(3) == 0 {
				wr.Compare++
			} else {
				p.numbers[k] = wr.Swap
			}
		}
		check = func() (err error) {
			p.landing.Do(func(b []byte) {
				if got := binary.NativeEndian.Uint64(b[at:]); got != want {
					err = wrongf("an atomic operation on word %d brought %x, want %x", k, got, want)
				}
			})
			return err
		}
	}
	return check
}

// pieces names n bytes of a region, in one piece or several.
func (p *pair) pieces(mr *verbs.MR, at, n int) (sgl []verbs.SGE) {
	for len(sgl) < maxPieces-1 && p.rand.IntN(2) == 0 {
		k := p.rand.IntN(n + 1)
		sgl = append(sgl, mr.SGE(at, k))
		at, n = at+k, n-k
	}
	return append(sgl, mr.SGE(at, n))
}

func (s *verbsSide) index(p *pair) int {
	for i := range s.pairs {
		if s.pairs[i] == p {
			return i
		}
	}
	panic("no pair of this side")
}

// completed takes a completion.
func (s *verbsSide) completed(wc *verbs.WC) error {
	var p *pair
	for _, o := range s.pairs {
		if o.qp.Num() == wc.QPN {
			p = o
		}
	}
	if p == nil {
		return wrongf("a completion of queue pair %v, which is not there", wc.QPN)
	}
	if wc.ID>>32 == 0 && int(wc.ID) != p.done {
		return wrongf("operation %d completed when %d was next", wc.ID, p.done)
	}
	if wc.Status != verbs.StatusSuccess {
		return wc.Status.Err()
	}
	if wc.ID>>32 == 0 {
		check := p.checks[0]
		p.checks = p.checks[1:]
		p.done++
		return check()
	}
	if err := s.limit.took(); err != nil {
		return err
	}
	place, n := int(wc.ID&0xffffffff), int(wc.ByteLen)
	if p.ended {
		return wrongf("a message of %d bytes after the last one", n)
	}
	if n == 0 {
		p.ended = true
		return nil
	}
	ok := false
	s.recv.Do(func(b []byte) {
		b = b[place*maxSend:]
		ok = stamped(b[:n], (1-s.num)*16+s.index(p), p.received)
	})
	if !ok {
		return wrongf("message %d, of %d bytes, is not what was sent", p.received, n)
	}
	p.received++
	return s.postRecv(place)
}

// compare compares memory with the peer's model of it.
func (s *verbsSide) compare(peer *verbsSide) (err error) {
	for j, p := range peer.pairs {
		s.target.Do(func(b []byte) {
			if !bytes.Equal(b[j*targetSize:(j+1)*targetSize], p.model) {
				err = wrongf("the memory of side %d is not what queue pair %d of side %d wrote", s.num, j, peer.num)
			}
		})
		s.words.Do(func(b []byte) {
			for k, want := range p.numbers {
				if got := binary.NativeEndian.Uint64(b[(j*words+k)*8:]); got != want {
					err = wrongf("word %d of side %d is %x, want %x", k, s.num, got, want)
				}
			}
		})
		if got := s.pairs[j].received; got != p.sent {
			err = wrongf("queue pair %d of side %d received %d messages of %d", j, s.num, got, p.sent)
		}
	}
	return err
}
