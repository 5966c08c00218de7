// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// everything is a transport that has a message for every work request.
func everything(*verbs.SendWR) error { return nil }

// Each work request that can never be carried out is refused, and says why by its class.
func TestCheckSends(t *testing.T) {
	errTransport := errors.New("no such message")
	good := verbs.SendWR{Op: verbs.OpWrite}
	for _, c := range []struct {
		name string
		wr   verbs.SendWR
		err  error
	}{
		{"no operation", verbs.SendWR{}, verbs.ErrInvalid},
		{"unknown operation", verbs.SendWR{Op: verbs.OpBindMW + 1}, verbs.ErrInvalid},
		{"too many entries", verbs.SendWR{Op: verbs.OpSend, SGL: make([]verbs.SGE, 3)}, verbs.ErrInvalid},
		{"two entries", verbs.SendWR{Op: verbs.OpSend, SGL: make([]verbs.SGE, 2)}, nil},
		{"too long inline", verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, 9)}, verbs.ErrInvalid},
		{"inline", verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, 8)}, nil},
		{"inline READ", verbs.SendWR{Op: verbs.OpRead, Inline: []byte{}}, verbs.ErrInvalid},
		{"READ without depth", verbs.SendWR{Op: verbs.OpRead}, verbs.ErrInvalid},
		{"bind nothing", verbs.SendWR{Op: verbs.OpBindMW}, verbs.ErrInvalid},
		{"bind no window", verbs.SendWR{Op: verbs.OpBindMW, Bind: &verbs.MWBindInfo{}}, verbs.ErrInvalid},
		{"not of the transport", verbs.SendWR{Op: verbs.OpSendInv}, errTransport},
	} {
		f := newPair(t)
		f.SetState(verbs.StateRTS)
		transport := func(wr *verbs.SendWR) error {
			if wr.Op == verbs.OpSendInv {
				return errTransport
			}
			return nil
		}
		for _, all := range []bool{false, true} {
			n, err := f.CheckSends([]verbs.SendWR{good, c.wr, good}, 0, all, transport)
			want := 3
			switch {
			case c.err != nil && all:
				want = 0
			case c.err != nil:
				want = 1
			}
			if n != want || !errors.Is(err, c.err) {
				t.Errorf("%s, all %v: %d can be posted, %v; want %d, %v", c.name, all, n, err, want, c.err)
			}
		}
	}
}

// A type of queue pairs has only some of the operations (IBTA 9.2, annexes A14 and A19).
func TestOperationsOfTypes(t *testing.T) {
	ud := []verbs.SendOp{verbs.OpSend, verbs.OpSendImm}
	uc := append(slices.Clone(ud), verbs.OpWrite, verbs.OpWriteImm, verbs.OpLocalInv, verbs.OpBindMW)
	xrc := append(slices.Clone(uc), verbs.OpSendInv, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd)
	rc := append(slices.Clone(xrc), verbs.OpAtomicWrite, verbs.OpFlush)
	for typ, ops := range map[verbs.QPType][]verbs.SendOp{verbs.UD: ud, verbs.UC: uc, verbs.XRCIni: xrc,
		verbs.XRCTgt: nil, verbs.RC: rc} {
		f := newPair(t)
		f.SetState(verbs.StateRTS)
		f.Type = typ
		for op := verbs.OpSend; op <= verbs.OpBindMW; op++ {
			_, err := f.CheckSends([]verbs.SendWR{{Op: op}}, 0, false, nil)
			refused := err != nil && strings.Contains(err.Error(), "is no operation of")
			if refused == slices.Contains(ops, op) {
				t.Errorf("%v of %v: %v", op, typ, err)
			}
		}
	}
}

// FLUSH says what it is to do, and READ has a depth.
func TestCheckSendsOfResponders(t *testing.T) {
	f := newPair(t)
	f.SetState(verbs.StateRTS)
	f.Attr().MaxRdAtomic = 1
	for level := range verbs.FlushLevel(5) {
		wr := verbs.SendWR{Op: verbs.OpFlush, FlushLevel: level}
		_, err := f.CheckSends([]verbs.SendWR{wr}, 0, false, everything)
		if ok := level >= 1 && level <= 3; (err == nil) != ok {
			t.Errorf("a FLUSH of level %d: %v", level, err)
		}
	}
	wr := verbs.SendWR{Op: verbs.OpFlush, FlushLevel: verbs.FlushToGlobal, FlushScope: verbs.FlushRegion + 1}
	if _, err := f.CheckSends([]verbs.SendWR{wr}, 0, false, everything); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a FLUSH of an unknown scope: %v", err)
	}
}

// The 8 bytes of an ATOMIC_WRITE need no room for inline data.
func TestInlineAtomicWrite(t *testing.T) {
	f := newPair(t)
	f.SetState(verbs.StateRTS)
	f.Attr().MaxRdAtomic, f.Caps.MaxInline = 1, 0
	for op, want := range map[verbs.SendOp]error{verbs.OpAtomicWrite: nil, verbs.OpWrite: verbs.ErrInvalid,
		verbs.OpFetchAdd: verbs.ErrInvalid} {
		wr := verbs.SendWR{Op: op, Inline: make([]byte, 8)}
		if _, err := f.CheckSends([]verbs.SendWR{wr}, 0, false, everything); !errors.Is(err, want) {
			t.Errorf("%v: %v; want %v", op, err, want)
		}
	}
}

// A send queue takes work requests from RTS on, and as many as it was made for.
func TestSendQueueBounds(t *testing.T) {
	f := newPair(t)
	wrs := make([]verbs.SendWR, 5)
	for i := range wrs {
		wrs[i].Op = verbs.OpSend
	}
	for s := verbs.StateReset; s <= verbs.StateError; s++ {
		f.SetState(s)
		n, err := f.CheckSends(wrs, 1, false, everything)
		want, wantErr := 3, verbs.ErrQueueFull
		if s < verbs.StateRTS {
			want, wantErr = 0, verbs.ErrState
		}
		if n != want || !errors.Is(err, wantErr) {
			t.Errorf("%v: %d can be posted, %v; want %d, %v", s, n, err, want, wantErr)
		}
	}
	f.SetState(verbs.StateRTS)
	if n, err := f.CheckSends(wrs, 0, true, everything); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d of all can be posted, %v", n, err)
	}
}

// The length of a message is its memory's, or the operation cannot have it.
func TestSendLength(t *testing.T) {
	sge := func(n ...uint32) (sgl []verbs.SGE) {
		for _, n := range n {
			sgl = append(sgl, verbs.SGE{Length: n})
		}
		return sgl
	}
	for _, c := range []struct {
		typ    verbs.QPType
		wr     verbs.SendWR
		length uint32
		status verbs.Status
	}{
		{verbs.RC, verbs.SendWR{Op: verbs.OpSend}, 0, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpSend, SGL: sge(3, 4)}, 7, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpSend, SGL: sge(3, 4), Inline: []byte{1}}, 1, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpWrite, SGL: sge(1 << 20)}, 1 << 20, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpWrite, SGL: sge(1<<20, 1)}, 0, verbs.StatusLocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.OpWrite, SGL: sge(1<<32-1, 1<<32-1)}, 0, verbs.StatusLocalLengthError},
		{verbs.UD, verbs.SendWR{Op: verbs.OpSend, SGL: sge(2048)}, 2048, verbs.StatusSuccess},
		{verbs.UD, verbs.SendWR{Op: verbs.OpSend, SGL: sge(2049)}, 0, verbs.StatusLocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.OpFetchAdd, SGL: sge(8)}, 8, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpCompareSwap, SGL: sge(4)}, 0, verbs.StatusLocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: make([]byte, 8)}, 8, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpFlush, FlushLen: 1 << 30}, 1 << 30, verbs.StatusSuccess},
		{verbs.RC, verbs.SendWR{Op: verbs.OpLocalInv, SGL: sge(5)}, 0, verbs.StatusSuccess},
	} {
		f := newPair(t, func(q *queue.Config) { q.Type = c.typ })
		w := queue.SendWQE{Status: verbs.StatusWRFlushError, SGL: sge(1, 2, 3), Inline: []byte{4}, Length: 9}
		if f.SetSend(&w, &c.wr); w.Length != c.length || w.Status != c.status {
			t.Errorf("%v of %+v: %d bytes, %v; want %d, %v", c.typ, c.wr, w.Length, w.Status, c.length, c.status)
		}
	}
}

// A work request that succeeded is reported if it is to be; one that failed, always.
func TestCompleteSend(t *testing.T) {
	for _, c := range []struct {
		wqe      queue.SendWQE
		all      bool
		status   verbs.Status
		reported bool
		bytes    uint32
	}{
		{wqe: queue.SendWQE{Op: verbs.OpWrite}},
		{wqe: queue.SendWQE{Op: verbs.OpWrite}, all: true, reported: true},
		{wqe: queue.SendWQE{Op: verbs.OpWrite, Flags: verbs.Signaled}, reported: true},
		{wqe: queue.SendWQE{Op: verbs.OpWrite}, status: verbs.StatusRetryExceeded, reported: true},
		{wqe: queue.SendWQE{Op: verbs.OpRead, Flags: verbs.Signaled}, reported: true, bytes: 5},
		{wqe: queue.SendWQE{Op: verbs.OpRead}, status: verbs.StatusWRFlushError, reported: true},
	} {
		f := newPair(t, func(q *queue.Config) { q.SignalAll = c.all })
		c.wqe.ID, c.wqe.Length = 3, 5
		f.CompleteSend(&c.wqe, c.status)
		got := f.out.Completions
		if len(got) > 0 != c.reported {
			t.Errorf("%+v ends with %v: reported %v, want %v", c.wqe, c.status, len(got) > 0, c.reported)
		}
		if len(got) > 0 && (got[0].WC.ID != 3 || got[0].WC.Status != c.status || got[0].WC.ByteLen != c.bytes ||
			got[0].CQ != f.SendCQ) {
			t.Errorf("%+v ends with %v: %+v", c.wqe, c.status, got[0].WC)
		}
	}
}
