// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// everything is a transport that has a message for every work request.
func everything(*verbs.SendWR) error { return nil }

// Each work request that can never be carried out is refused, and says why by its class.
func TestCheckSends(t *testing.T) {
	errTransport := errors.New("no such message")
	good := verbs.SendWR{Op: verbs.Write}
	for _, c := range []struct {
		name string
		wr   verbs.SendWR
		err  error
	}{
		{"no operation", verbs.SendWR{}, verbs.ErrInvalid},
		{"unknown operation", verbs.SendWR{Op: verbs.BindMW + 1}, verbs.ErrInvalid},
		{"too many entries", verbs.SendWR{Op: verbs.Send, SGL: make([]verbs.SGE, 3)}, verbs.ErrInvalid},
		{"two entries", verbs.SendWR{Op: verbs.Send, SGL: make([]verbs.SGE, 2)}, nil},
		{"too long inline", verbs.SendWR{Op: verbs.Send, Inline: make([]byte, 9)}, verbs.ErrInvalid},
		{"inline", verbs.SendWR{Op: verbs.Send, Inline: make([]byte, 8)}, nil},
		{"inline READ", verbs.SendWR{Op: verbs.Read, Inline: []byte{}}, verbs.ErrInvalid},
		{"READ without depth", verbs.SendWR{Op: verbs.Read}, verbs.ErrInvalid},
		{"bind nothing", verbs.SendWR{Op: verbs.BindMW}, verbs.ErrInvalid},
		{"bind no window", verbs.SendWR{Op: verbs.BindMW, Bind: &verbs.MWBindInfo{}}, verbs.ErrInvalid},
		{"not of the transport", verbs.SendWR{Op: verbs.SendInv}, errTransport},
	} {
		f := newPair(t)
		f.SetState(verbs.RTS)
		transport := func(wr *verbs.SendWR) error {
			if wr.Op == verbs.SendInv {
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

// FLUSH says what it is to do, and READ has a depth.
func TestCheckSendsOfResponders(t *testing.T) {
	f := newPair(t)
	f.SetState(verbs.RTS)
	f.Attr().MaxRdAtomic = 1
	for level := range verbs.FlushLevel(5) {
		wr := verbs.SendWR{Op: verbs.Flush, FlushLevel: level}
		_, err := f.CheckSends([]verbs.SendWR{wr}, 0, false, everything)
		if ok := level >= 1 && level <= 3; (err == nil) != ok {
			t.Errorf("a FLUSH of level %d: %v", level, err)
		}
	}
	wr := verbs.SendWR{Op: verbs.Flush, FlushLevel: verbs.FlushToGlobal, FlushScope: verbs.FlushRegion + 1}
	if _, err := f.CheckSends([]verbs.SendWR{wr}, 0, false, everything); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a FLUSH of an unknown scope: %v", err)
	}
}

// A send queue takes work requests from RTS on, and as many as it was made for.
func TestSendQueueBounds(t *testing.T) {
	f := newPair(t)
	wrs := make([]verbs.SendWR, 5)
	for i := range wrs {
		wrs[i].Op = verbs.Send
	}
	for s := verbs.Reset; s <= verbs.Err; s++ {
		f.SetState(s)
		n, err := f.CheckSends(wrs, 1, false, everything)
		want, wantErr := 3, verbs.ErrQueueFull
		if s < verbs.RTS {
			want, wantErr = 0, verbs.ErrState
		}
		if n != want || !errors.Is(err, wantErr) {
			t.Errorf("%v: %d can be posted, %v; want %d, %v", s, n, err, want, wantErr)
		}
	}
	f.SetState(verbs.RTS)
	if n, err := f.CheckSends(wrs, 0, true, everything); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d of all can be posted, %v", n, err)
	}
}

// The length of a message is what its memory has, or it is one that the operation cannot have.
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
		{verbs.RC, verbs.SendWR{Op: verbs.Send}, 0, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.Send, SGL: sge(3, 4)}, 7, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.Send, SGL: sge(3, 4), Inline: []byte{1}}, 1, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.Write, SGL: sge(1 << 20)}, 1 << 20, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.Write, SGL: sge(1<<20, 1)}, 0, verbs.LocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.Write, SGL: sge(1<<32-1, 1<<32-1)}, 0, verbs.LocalLengthError},
		{verbs.UD, verbs.SendWR{Op: verbs.Send, SGL: sge(2048)}, 2048, verbs.Success},
		{verbs.UD, verbs.SendWR{Op: verbs.Send, SGL: sge(2049)}, 0, verbs.LocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.FetchAdd, SGL: sge(8)}, 8, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.CompareSwap, SGL: sge(4)}, 0, verbs.LocalLengthError},
		{verbs.RC, verbs.SendWR{Op: verbs.AtomicWrite, Inline: make([]byte, 8)}, 8, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.Flush, FlushLen: 1 << 30}, 1 << 30, verbs.Success},
		{verbs.RC, verbs.SendWR{Op: verbs.LocalInv, SGL: sge(5)}, 0, verbs.Success},
	} {
		f := newPair(t, func(q *queue.Config) { q.Type = c.typ })
		w := queue.SendWQE{Status: verbs.WRFlushError, SGL: sge(1, 2, 3), Inline: []byte{4}, Length: 9}
		if f.SetSend(&w, &c.wr); w.Length != c.length || w.Status != c.status {
			t.Errorf("%v of %+v: %d bytes, %v; want %d, %v", c.typ, c.wr, w.Length, w.Status, c.length, c.status)
		}
	}
}

// What succeeded is reported if it is to be; what failed, always.
func TestCompleteSend(t *testing.T) {
	for _, c := range []struct {
		wqe    queue.SendWQE
		all    bool
		status verbs.Status
		told   bool
		bytes  uint32
	}{
		{wqe: queue.SendWQE{Op: verbs.Write}},
		{wqe: queue.SendWQE{Op: verbs.Write}, all: true, told: true},
		{wqe: queue.SendWQE{Op: verbs.Write, Flags: verbs.Signaled}, told: true},
		{wqe: queue.SendWQE{Op: verbs.Write}, status: verbs.RetryExceeded, told: true},
		{wqe: queue.SendWQE{Op: verbs.Read, Flags: verbs.Signaled}, told: true, bytes: 5},
		{wqe: queue.SendWQE{Op: verbs.Read}, status: verbs.WRFlushError, told: true},
	} {
		f := newPair(t, func(q *queue.Config) { q.SignalAll = c.all })
		c.wqe.ID, c.wqe.Length = 3, 5
		f.CompleteSend(&c.wqe, c.status)
		got := f.dev.Outbox.Completions
		if len(got) > 0 != c.told {
			t.Errorf("%+v ends with %v: reported %v, want %v", c.wqe, c.status, len(got) > 0, c.told)
		}
		if len(got) > 0 && (got[0].WC.ID != 3 || got[0].WC.Status != c.status || got[0].WC.ByteLen != c.bytes || got[0].CQ != f.SendCQ) {
			t.Errorf("%+v ends with %v: %+v", c.wqe, c.status, got[0].WC)
		}
	}
}
