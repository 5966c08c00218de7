// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// prepare prepares memory and receives for a step.
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
		case st.Op != verbs.OpWriteImm:
			wr.SGL = []verbs.SGE{s.in.SGE(i*st.Size, st.Size)}
		}
		if err := s.qp(st.QP).PostRecv(&wr); err != nil {
			return err
		}
	}
	return nil
}

// post sends message i of a step from its place in our memory to the same place in the peer's.
func (s *side) post(st *step, i int) error {
	wr := verbs.SendWR{ID: uint64(i), Op: st.Op, Flags: verbs.Signaled}
	sge := [1]verbs.SGE{s.out.SGE(i*st.Size, st.Size)}
	wr.SGL = sge[:]
	off := uint64(i * st.Size)
	switch st.Op {
	case verbs.OpWrite, verbs.OpWriteImm:
		wr.Remote = s.remote.In.At(off)
	case verbs.OpRead:
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
		if err := wc.Err(); err != nil {
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
		return fmt.Errorf("message %d: immediate data is %#x instead of %#x", s.received, wc.Imm,
			st.imm(!s.role, s.received))
	case st.QP == verbs.UD && wc.SrcQPN != s.remote.UD.QPN:
		return fmt.Errorf("message %d is from queue pair %v instead of %v", s.received, wc.SrcQPN, s.remote.UD.QPN)
	}
	return nil
}
