// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const windowArea = 16 << 10

// windowSide is one end of a queue pair: host 0 binds memory windows to its memory, and host 1 uses them.
type windowSide struct {
	w      *world
	host   int
	num    int // of the queue pair
	rounds int
	rand   *rand.Rand
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	ep     verbs.Endpoint
	area   *verbs.MR // host 0: for windows; host 1: data that it writes, and behind that data that it reads
	talk   *verbs.MR // a sent message, and behind it a received one
	got    []verbs.WC
}

const talkSize = 32

// runWindows has one side bind windows of both types, the other one write and read through them, and either
// end them. A window that has ended permits no access.
func runWindows(w *world) error {
	pairs, rounds := 1+w.rand.IntN(3), 1+w.rand.IntN(10)
	w.tell(", %d queue pairs, %d windows on each", pairs, rounds)
	var sides [2][]*windowSide
	for host := range sides {
		pd, err := w.devs[host].AllocPD()
		if err != nil {
			return err
		}
		for num := range pairs {
			s := &windowSide{w: w, host: host, num: num, rounds: rounds, pd: pd}
			if err := s.open(); err != nil {
				return err
			}
			sides[host] = append(sides[host], s)
		}
	}
	for num := range pairs {
		seed := w.rand.Uint64()
		for host := range sides {
			s, peer := sides[host][num], sides[1-host][num]
			s.rand = rand.New(rand.NewPCG(seed, 6)) // both sides know the operations
			if err := s.qp.Connect(s.ep, peer.ep, w.patience()); err != nil {
				return err
			}
		}
	}
	return w.all(func(ctx context.Context, host int) error {
		errs := make(chan error)
		for _, s := range sides[host] {
			go func() { errs <- s.run() }()
		}
		var first error
		for range sides[host] {
			if err := <-errs; first == nil {
				first = err
			}
		}
		return first
	})
}

func (s *windowSide) open() (err error) {
	if s.cq, err = s.w.devs[s.host].CreateCQ(64, s.w.cqOptions()); err != nil {
		return err
	}
	access := verbs.LocalWrite
	if s.host == 0 {
		access |= verbs.MWBind
	}
	if s.area, err = s.pd.RegMR(make([]byte, 2*windowArea), access); err != nil {
		return err
	}
	if s.talk, err = s.pd.RegMR(make([]byte, 2*talkSize), verbs.LocalWrite); err != nil {
		return err
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
		return err
	}
	s.ep, err = s.qp.Endpoint(0)
	return err
}

// round is the life of one window.
type round struct {
	typ      verbs.MWType
	off, n   int // of the window
	at, k    int // of the bytes written, and read, within it
	remote   bool
	zero     bool // the window's addresses count from 0
	together bool // everything is posted at once
}

func (s *windowSide) plan() (r round) {
	r.typ = verbs.MWType1 + verbs.MWType(s.rand.IntN(2))
	r.n = 1 + someSize(s.rand, windowArea-1)
	r.off = s.rand.IntN(windowArea - r.n + 1)
	r.k = 1 + s.rand.IntN(r.n)
	r.at = s.rand.IntN(r.n - r.k + 1)
	r.remote = r.typ == verbs.MWType2 && s.rand.IntN(2) == 0
	r.zero = s.rand.IntN(2) == 0
	r.together = s.rand.IntN(2) == 0
	return r
}

func (s *windowSide) run() error {
	ctx, cancel := patient(10 + 2*s.num + s.host)
	defer cancel()
	s.w.net.Sleep(0)
	if err := s.postRecv(); err != nil {
		return err
	}
	var err error
	if s.host == 0 {
		err = s.own(ctx)
	} else {
		err = s.use(ctx)
	}
	if err != nil {
		return fmt.Errorf("queue pair %d: %w", s.num, err)
	}
	return nil
}

func (s *windowSide) postRecv() error {
	return s.qp.PostRecv(&verbs.RecvWR{ID: 99, SGL: []verbs.SGE{s.talk.SGE(talkSize, talkSize)}})
}

// next returns the completion of a work request.
func (s *windowSide) next(ctx context.Context, id uint64) (*verbs.WC, error) {
	for {
		for i, wc := range s.got {
			if wc.ID == id {
				s.got = slices.Delete(s.got, i, i+1)
				return &wc, wc.Status.Err()
			}
		}
		var wcs [8]verbs.WC
		n, err := s.cq.Wait(ctx, wcs[:])
		if err != nil {
			return nil, err
		}
		s.got = append(s.got, wcs[:n]...)
	}
}

// do posts a work request and waits for its completion.
func (s *windowSide) do(ctx context.Context, wr *verbs.SendWR) error {
	wr.Flags |= verbs.Signaled
	if err := s.qp.PostSend(wr); err != nil {
		return err
	}
	_, err := s.next(ctx, wr.ID)
	return err
}

// hear receives a message.
func (s *windowSide) hear(ctx context.Context, f func(b []byte)) (*verbs.WC, error) {
	wc, err := s.next(ctx, 99)
	if err != nil {
		return nil, err
	}
	s.talk.Do(func(b []byte) { f(b[talkSize:]) })
	return wc, s.postRecv()
}

// tell is a work request that sends a message.
func (s *windowSide) tell(id uint64, f func(b []byte)) *verbs.SendWR {
	s.talk.Do(func(b []byte) { f(b[:talkSize]) })
	return &verbs.SendWR{ID: id, Op: verbs.OpSend, SGL: []verbs.SGE{s.talk.SGE(0, talkSize)}}
}

const windowUse = verbs.RemoteRead | verbs.RemoteWrite

// own binds windows and tells the peer of them.
func (s *windowSide) own(ctx context.Context) error {
	model := make([]byte, windowArea)
	windows := make(map[verbs.MWType]*verbs.MW)
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		mw, err := s.pd.AllocMW(typ)
		if err != nil {
			return err
		}
		windows[typ] = mw
	}
	for i := range s.rounds {
		r := s.plan()
		mw := windows[r.typ]
		info := verbs.MWBindInfo{MW: mw, MR: s.area, Addr: s.area.Addr() + uint64(r.off), Length: uint64(r.n),
			Access: windowUse}
		addr := info.Addr
		if r.zero {
			info.Access |= verbs.ZeroBased
			addr = 0
		}
		if r.typ == verbs.MWType2 {
			info.RKey = mw.NextRKey()
		}
		if err := s.do(ctx, &verbs.SendWR{ID: 1, Op: verbs.OpBindMW, Bind: &info}); err != nil {
			return fmt.Errorf("binding window %d: %w", i, err)
		}
		key := mw.RKey()
		if err := s.do(ctx, s.tell(2, func(b []byte) {
			binary.BigEndian.PutUint64(b, addr)
			binary.BigEndian.PutUint32(b[8:], uint32(key))
		})); err != nil {
			return err
		}
		stamp(model[r.off+r.at:r.off+r.at+r.k], s.num, i)
		wc, err := s.hear(ctx, func([]byte) {})
		if err != nil {
			return err
		}
		if invalidated := wc.Flags&verbs.WithInv != 0; invalidated != r.remote || invalidated && wc.InvKey != key {
			return wrongf("window %d: a message with flags %v and key %#x, want %#x invalidated %v", i, wc.Flags,
				wc.InvKey, key, r.remote)
		}
		if err := s.compare(model); err != nil {
			return err
		}
		// A type 1 window is unbound by binding it to nothing; the peer has invalidated a type 2 one, or
		// we do.
		end := &verbs.SendWR{ID: 3, Op: verbs.OpBindMW, Bind: &verbs.MWBindInfo{MW: mw}}
		if r.typ == verbs.MWType2 {
			end = &verbs.SendWR{ID: 3, Op: verbs.OpLocalInv, InvKey: key}
		}
		if !r.remote {
			if err := s.do(ctx, end); err != nil {
				return fmt.Errorf("ending window %d: %w", i, err)
			}
		}
	}
	// The last window has ended. Nothing may come through it. The message that says so may arrive and fail
	// none the less, as the queue pair does before it is acknowledged.
	if err := s.qp.PostSend(s.tell(4, func(b []byte) { clear(b) })); err != nil {
		return err
	}
	if _, err := s.next(ctx, 99); err == nil {
		return wrongf("a message behind a WRITE to a window that has ended")
	} else if ctx.Err() != nil {
		return err
	}
	return s.compare(model)
}

func (s *windowSide) compare(model []byte) (err error) {
	s.area.Do(func(b []byte) {
		if i := diff(b[:windowArea], model); i >= 0 {
			err = wrongf("byte %d of the memory behind the windows is wrong", i)
		}
	})
	return err
}

// use writes and reads through the peer's windows.
func (s *windowSide) use(ctx context.Context) error {
	var last verbs.Remote
	for i := range s.rounds {
		r := s.plan()
		if _, err := s.hear(ctx, func(b []byte) {
			last = verbs.Remote{Addr: binary.BigEndian.Uint64(b), Key: verbs.Key(binary.BigEndian.Uint32(b[8:]))}
		}); err != nil {
			return err
		}
		s.area.Do(func(b []byte) {
			stamp(b[:r.k], s.num, i)
			clear(b[windowArea : windowArea+r.k])
		})
		end := *s.tell(3, func(b []byte) {})
		if r.remote {
			end.Op, end.InvKey = verbs.OpSendInv, last.Key
		}
		// The READ must not be requested again after the window has gone, so the invalidation waits.
		end.Flags = verbs.Fence
		wrs := []verbs.SendWR{
			{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{s.area.SGE(0, r.k)}, Remote: last.At(uint64(r.at))},
			{ID: 2, Op: verbs.OpRead, SGL: []verbs.SGE{s.area.SGE(windowArea, r.k)}, Remote: last.At(uint64(r.at))},
			end,
		}
		for k := range wrs {
			wr := &wrs[k]
			wr.Flags |= verbs.Signaled
			if err := s.qp.PostSend(wr); err != nil {
				return err
			}
			if !r.together {
				if _, err := s.next(ctx, wr.ID); err != nil {
					return err
				}
			}
		}
		if r.together {
			for k := range wrs {
				if _, err := s.next(ctx, wrs[k].ID); err != nil {
					return err
				}
			}
		}
		good := false
		s.area.Do(func(b []byte) { good = bytes.Equal(b[:r.k], b[windowArea:windowArea+r.k]) })
		if !good {
			return wrongf("a READ through window %d brings what was not written", i)
		}
	}
	if _, err := s.hear(ctx, func([]byte) {}); err != nil {
		return err
	}
	s.area.Do(func(b []byte) { stamp(b[:1], 77, 77) })
	// iWARP knows of the WRITE's end when it has left, and of its refusal when the peer says so: then the
	// message behind it fails, or the stream has ended.
	if err := s.qp.PostSend(&verbs.SendWR{ID: 5, Op: verbs.OpWrite, SGL: []verbs.SGE{s.area.SGE(0, 1)},
		Remote: last}); err != nil {
		return err
	}
	if err := s.do(ctx, &verbs.SendWR{ID: 6, Op: verbs.OpRead, SGL: []verbs.SGE{s.area.SGE(0, 1)},
		Remote: last}); err == nil {
		return wrongf("a READ through a window that has ended succeeds")
	} else if ctx.Err() != nil {
		return err
	}
	return nil
}
