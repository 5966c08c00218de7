// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	sideMemory = 16 << 20 // bytes that a step may send, and that may land
	guardLen   = 64       // bytes after what lands that must stay 0
	wordOffset = 8        // of the word for atomics; its neighbours must not change
	grhOffset  = 64       // in the same region: where datagrams leave their GRH
	wordsLen   = 128
	sideQKey   = verbs.QKey(0x0ddba11)
	maxSends   = 128
	maxRecvs   = 1024
	maxSilence = 30 * time.Second // of the peer, before a side gives up
)

// side is one process's half of the demo.
type side struct {
	role           role
	dev            *verbs.Device
	streams        bool // the device has RC only, and WRITEs complete before they have arrived
	pd             *verbs.PD
	cq             *verbs.CQ
	rc, uc, ud     *verbs.QP
	out, in, words *verbs.MR
	ah             *verbs.AH // of the peer, for datagrams
	local, remote  hello

	completed int // sends of the present step
	received  int // receives of it
	wcs       [16]verbs.WC
}

// newSide makes everything that a side needs from its device. The device owns it.
func newSide(r role, dev *verbs.Device) (s *side, err error) {
	s = &side{role: r, dev: dev, streams: dev.Query().Kind == "iwarp"}
	if s.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if s.cq, err = dev.CreateCQ(4*maxRecvs, nil); err != nil {
		return nil, err
	}
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	for _, m := range []struct {
		mr   **verbs.MR
		size int
	}{{&s.out, sideMemory}, {&s.in, sideMemory + guardLen}, {&s.words, wordsLen}} {
		if *m.mr, err = s.pd.AllocMR(m.size, access); err != nil {
			return nil, err
		}
	}
	s.local = hello{Device: dev.Name(), In: s.in.Remote(), Out: s.out.Remote(), Words: s.words.Remote()}
	for _, q := range []struct {
		typ verbs.QPType
		qp  **verbs.QP
		ep  *verbs.Endpoint
	}{{verbs.RC, &s.rc, &s.local.RC}, {verbs.UC, &s.uc, &s.local.UC}, {verbs.UD, &s.ud, &s.local.UD}} {
		if s.streams && q.typ != verbs.RC {
			continue
		}
		*q.qp, err = s.pd.CreateQP(verbs.QPInit{Type: q.typ, SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: maxSends, MaxRecvWR: maxRecvs})
		if err != nil {
			return nil, err
		}
		if *q.ep, err = (*q.qp).Endpoint(0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// connect takes the queue pairs to RTS.
func (s *side) connect(remote *hello) (err error) {
	s.remote = *remote
	if err := s.rc.Connect(s.local.RC, remote.RC, nil); err != nil || s.streams {
		return err
	}
	if err := s.uc.Connect(s.local.UC, remote.UC, nil); err != nil {
		return err
	}
	if err := s.ud.StartUD(sideQKey); err != nil {
		return err
	}
	s.ah, err = s.pd.CreateAH(verbs.AHAttr{DGID: remote.UD.GID})
	return err
}

func (s *side) qp(t verbs.QPType) *verbs.QP {
	switch t {
	case verbs.UC:
		return s.uc
	case verbs.UD:
		return s.ud
	}
	return s.rc
}

// idle moves data while there is nothing to do.
func (s *side) idle() { s.cq.Poll(s.wcs[:0]) }

// prepare makes memory and receives ready for a step.
func (s *side) prepare(st *step) error {
	if st.Size%8 != 0 || st.Count < 1 || st.total() > sideMemory {
		return fmt.Errorf("a step of %d messages of %d bytes", st.Count, st.Size)
	}
	s.completed, s.received = 0, 0
	if st.sources(s.role) {
		s.out.Do(func(b []byte) { st.seed(s.role).fill(b[:st.total()]) })
	}
	s.in.Do(func(b []byte) { clear(b[:st.total()+guardLen]) })
	s.words.Do(func(b []byte) {
		clear(b)
		binary.NativeEndian.PutUint64(b[wordOffset:], st.Seed.word(0))
	})
	if !st.receives(s.role) {
		return nil
	}
	for i := range st.Count {
		wr := verbs.RecvWR{ID: uint64(i)}
		switch {
		case st.QP == verbs.UD:
			wr.SGL = []verbs.SGE{s.words.SGE(grhOffset, 40), s.in.SGE(i*st.Size, st.Size)}
		case st.Op != verbs.WriteImm:
			wr.SGL = []verbs.SGE{s.in.SGE(i*st.Size, st.Size)}
		}
		if err := s.qp(st.QP).PostRecv(&wr); err != nil {
			return err
		}
	}
	return nil
}

// post sends message i of a step: from its place in our memory, to the same place in the
// peer's.
func (s *side) post(st *step, i int) error {
	wr := verbs.SendWR{ID: uint64(i), Op: st.Op, Flags: verbs.Signaled}
	sge := [1]verbs.SGE{s.out.SGE(i*st.Size, st.Size)}
	wr.SGL = sge[:]
	off := uint64(i * st.Size)
	switch st.Op {
	case verbs.Write, verbs.WriteImm:
		wr.Remote = s.remote.In.At(off)
	case verbs.Read:
		sge[0] = s.in.SGE(i*st.Size, st.Size)
		wr.Remote = s.remote.Out.At(off)
	}
	if st.immediate() {
		wr.Imm = st.imm(s.role, i)
	}
	if st.QP == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah, s.remote.UD.QPN, sideQKey
	}
	return s.qp(st.QP).PostSend(&wr)
}

// poll moves data and takes completions.
func (s *side) poll(st *step) error { return s.take(st, s.cq.Poll(s.wcs[:])) }

// take checks n completions.
func (s *side) take(st *step, n int) error {
	for i := range n {
		wc := &s.wcs[i]
		if err := wc.Status.Err(); err != nil {
			return fmt.Errorf("message %d: %v", wc.ID, wc.Status)
		}
		if wc.Op < verbs.WCRecv {
			s.completed++
			continue
		}
		if err := s.checkReceive(st, wc); err != nil {
			return err
		}
		s.received++
	}
	return nil
}

// checkReceive checks the completion of a receive.
func (s *side) checkReceive(st *step, wc *verbs.WC) error {
	length := uint32(st.Size)
	if st.QP == verbs.UD {
		length += 40
	}
	switch {
	case wc.ID != uint64(s.received):
		return fmt.Errorf("receive %d completed where %d was next", wc.ID, s.received)
	case wc.ByteLen != length:
		return fmt.Errorf("message %d has %d bytes instead of %d", s.received, wc.ByteLen, length)
	case st.immediate() != (wc.Flags&verbs.WithImm != 0):
		return fmt.Errorf("message %d: immediate data: %v", s.received, wc.Flags)
	case st.immediate() && wc.Imm != st.imm(!s.role, s.received):
		return fmt.Errorf("message %d: immediate data is %#x instead of %#x", s.received, wc.Imm, st.imm(!s.role, s.received))
	case st.QP == verbs.UD && wc.SrcQPN != s.remote.UD.QPN:
		return fmt.Errorf("message %d is from queue pair %v instead of %v", s.received, wc.SrcQPN, s.remote.UD.QPN)
	}
	return nil
}

// until polls until cond holds.
func (s *side) until(ctx context.Context, st *step, cond func() bool) error {
	var since time.Time // when the last completion came, or somewhat later
	before := -1
	for n := 1; !cond(); n++ {
		if err := s.poll(st); err != nil {
			return err
		}
		if n%4096 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now, done := time.Now(), s.received+s.completed; done != before {
			since, before = now, done
		} else if now.Sub(since) > maxSilence {
			return fmt.Errorf("nothing came for %v, after %d completions for %d messages", maxSilence, done, st.Count)
		}
	}
	return nil
}

// arrived waits for message i of the peer.
func (s *side) arrived(ctx context.Context, st *step, i int, want []byte) error {
	if st.Op != verbs.Write {
		return s.until(ctx, st, func() bool { return s.received > i })
	}
	off, there := i*st.Size, false
	look := func(b []byte) { there = bytes.Equal(b[off:off+st.Size], want) }
	return s.until(ctx, st, func() bool { s.in.Do(look); return there })
}

// echo is the second process's part of a step.
func (s *side) echo(ctx context.Context, st *step) error {
	switch {
	case st.Stream && st.receives(s.role):
		return s.sleepUntil(ctx, st, &s.received, st.Count)
	case !st.echoed():
		return nil // moving data is all it needs, which the wait for the next message does
	}
	want := st.expected(s.role)
	for i := range st.Count {
		if err := s.arrived(ctx, st, i, want.message(i)); err != nil {
			return err
		}
		if err := s.post(st, i); err != nil {
			return err
		}
	}
	return s.until(ctx, st, func() bool { return s.completed == st.Count })
}

// measure is the first process's part of a step. It returns the time of each round trip or
// operation, for a stream that of all together.
func (s *side) measure(ctx context.Context, st *step) ([]time.Duration, error) {
	if st.Stream {
		return s.stream(ctx, st)
	}
	if st.atomic() {
		return s.atomics(ctx, st)
	}
	want := st.expected(s.role)
	times := make([]time.Duration, 0, st.Count)
	for i := range st.Count {
		start := time.Now()
		err := s.post(st, i)
		switch {
		case err != nil:
		case st.echoed():
			err = s.arrived(ctx, st, i, want.message(i))
		default:
			err = s.until(ctx, st, func() bool { return s.completed > i })
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, s.until(ctx, st, func() bool { return s.completed == st.Count })
}

func (s *side) stream(ctx context.Context, st *step) ([]time.Duration, error) {
	start := time.Now()
	for i := range st.Count {
		if err := s.post(st, i); err != nil {
			return nil, err
		}
	}
	count := st.Count
	if s.streams && st.Op == verbs.Write { // a READ behind the WRITEs tells that they have arrived
		count++
		if err := s.rc.PostSend(&verbs.SendWR{Op: verbs.Read, Flags: verbs.Signaled, SGL: []verbs.SGE{s.words.SGE(0, 8)}, Remote: s.remote.Words}); err != nil {
			return nil, err
		}
	}
	err := s.sleepUntil(ctx, st, &s.completed, count)
	return []time.Duration{time.Since(start)}, err
}

// sleepUntil waits until so many messages of a stream have completed, without polling for long.
func (s *side) sleepUntil(ctx context.Context, st *step, count *int, want int) error {
	for *count < want {
		wait, cancel := context.WithTimeout(ctx, maxSilence)
		n, err := s.cq.Wait(wait, s.wcs[:])
		cancel()
		if err != nil {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("after %d of %d messages: %w", *count, st.Count, err))
		}
		if err := s.take(st, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) atomics(ctx context.Context, st *step) ([]time.Duration, error) {
	_, compare, swap, _ := st.atomicWant()
	times := make([]time.Duration, 0, st.Count)
	for i := range st.Count {
		start := time.Now()
		err := s.rc.PostSend(&verbs.SendWR{ID: uint64(i), Op: st.Op, Flags: verbs.Signaled, SGL: []verbs.SGE{s.in.SGE(8*i, 8)},
			Remote: s.remote.Words.At(wordOffset), Compare: compare[i], Swap: swap[i]})
		if err == nil {
			err = s.until(ctx, st, func() bool { return s.completed > i })
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

// expectation is what the peer's messages hold.
type expectation struct {
	size int
	data []byte
}

// expected makes what lands at r, for those steps that look for it while they run.
func (st *step) expected(r role) expectation {
	e := expectation{size: st.Size}
	if st.Op == verbs.Write {
		e.data = make([]byte, st.total())
		st.seed(!r).fill(e.data)
	}
	return e
}

func (e *expectation) message(i int) []byte {
	if e.data == nil {
		return nil
	}
	return e.data[i*e.size:][:e.size]
}

// verify compares every byte after a step: what landed, what follows it, and that the
// source did not change. It returns how many bytes landed.
func (s *side) verify(st *step) (n int64, err error) {
	if st.sources(s.role) {
		s.out.Do(func(b []byte) { err = st.seed(s.role).check(b[:st.total()]) })
		if err != nil {
			return 0, fmt.Errorf("the source changed: %w", err)
		}
	}
	s.in.Do(func(b []byte) {
		landed := 0
		switch {
		case st.lands(s.role):
			landed = st.total()
			err = st.seed(!s.role).check(b[:landed])
		case st.atomic() && s.role == first:
			landed = st.total()
			err = st.checkResults(b)
		}
		n = int64(landed)
		if err == nil && bytes.ContainsFunc(b[landed:landed+guardLen], func(r rune) bool { return r != 0 }) {
			err = errors.New("bytes behind the buffer changed")
		}
	})
	if err != nil || !st.atomic() || s.role == first {
		return n, err
	}
	s.words.Do(func(b []byte) { err = st.checkWord(b) })
	return 8, err
}

// checkResults compares the results of atomics.
func (st *step) checkResults(b []byte) error {
	before, _, _, _ := st.atomicWant()
	for i, want := range before {
		if got := binary.NativeEndian.Uint64(b[8*i:]); got != want {
			return fmt.Errorf("operation %d returned %#x instead of %#x", i, got, want)
		}
	}
	return nil
}

// checkWord compares the word that atomics worked on, and its neighbours.
func (st *step) checkWord(b []byte) error {
	_, _, _, after := st.atomicWant()
	if got := binary.NativeEndian.Uint64(b[wordOffset:]); got != after {
		return fmt.Errorf("the word is %#x instead of %#x", got, after)
	}
	if binary.NativeEndian.Uint64(b) != 0 || binary.NativeEndian.Uint64(b[wordOffset+8:]) != 0 {
		return errors.New("the word's neighbours changed")
	}
	return nil
}
