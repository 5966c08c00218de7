// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

const (
	churnMessage = 4 << 10
	churnRecvs   = 8
	churnSends   = 4
)

// churnSide is a host's end of its queue pair with a peer.
type churnSide struct {
	w          *world
	host, peer int
	count      int // messages to send
	pd         *verbs.PD
	cq         *verbs.CQ
	qp         *verbs.QP
	ep         verbs.Endpoint
	mr         *verbs.MR // sent messages, and behind them received ones

	posted, sent, received int
}

// runChurn has all hosts send messages to each other while queue pairs are closed, and a device. Messages arrive
// as they were sent, in order, and all of them if neither side was closed. Closed objects leave nothing behind.
func runChurn(w *world) error {
	count := 1 + w.rand.IntN(40)
	w.tell(", %d messages of each to each", count)
	var sides []*churnSide
	touched := make(map[[2]int]bool) // connections, the lower host first
	for i := range w.hosts {
		for j := range i {
			a, b := &churnSide{w: w, host: i, peer: j, count: count}, &churnSide{w: w, host: j, peer: i, count: count}
			if err := errors.Join(a.open(), b.open()); err != nil {
				return err
			}
			if err := errors.Join(a.qp.Connect(a.ep, b.ep, w.patience()),
				b.qp.Connect(b.ep, a.ep, w.patience())); err != nil {
				return err
			}
			sides = append(sides, a, b)
		}
	}
	var closing sync.WaitGroup
	closed := make([]error, len(sides)+1)
	for k, s := range sides {
		if w.rand.IntN(4) == 0 {
			at := w.someTime(time.Microsecond, time.Second)
			touched[[2]int{min(s.host, s.peer), max(s.host, s.peer)}] = true
			closing.Go(func() {
				w.net.Sleep(at)
				closed[k] = s.qp.Close()
			})
		}
	}
	gone := -1
	if w.rand.IntN(2) == 0 {
		gone = w.rand.IntN(len(w.hosts))
		at := w.someTime(time.Microsecond, time.Second)
		w.tell(", host %d's device closed after %v", gone, at)
		closing.Go(func() {
			w.net.Sleep(at)
			closed[len(sides)] = w.devs[gone].Close()
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	errs := make([]error, len(sides))
	for k, s := range sides {
		running.Go(func() { errs[k] = s.run(ctx) })
	}
	closing.Wait()
	w.net.Sleep(time.Minute)
	stop()
	running.Wait()
	for k, s := range sides {
		excused := touched[[2]int{min(s.host, s.peer), max(s.host, s.peer)}] || s.host == gone || s.peer == gone ||
			w.mayFail(s.host, s.peer)
		if errs[k] == nil && s.received < count {
			errs[k] = fmt.Errorf("%d messages of %d", s.received, count)
		}
		if errs[k] = excuse(excused, errs[k]); errs[k] != nil {
			errs[k] = fmt.Errorf("host %d with host %d: %w", s.host, s.peer, errs[k])
		}
		if s.host != gone {
			errs[k] = errors.Join(errs[k], s.qp.Close())
		}
	}
	for i, d := range w.devs {
		if l, ok := driver.DeviceOf(d).(loaded); ok && i != gone && l.Load() != (packetdev.Load{}) {
			errs = append(errs, wrongf("host %d still counts %+v without queue pairs", i, l.Load()))
		}
	}
	return errors.Join(append(errs, closed...)...)
}

func (s *churnSide) open() (err error) {
	dev := s.w.devs[s.host]
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if s.cq, err = dev.CreateCQ(64, s.w.cqOptions()); err != nil {
		return err
	}
	if s.mr, err = s.pd.RegMR(make([]byte, (churnSends+churnRecvs)*churnMessage), verbs.LocalWrite); err != nil {
		return err
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
		return err
	}
	s.ep, err = s.qp.Endpoint(0)
	return err
}

// run sends its messages, and receives until ctx ends or something fails.
func (s *churnSide) run(ctx context.Context) error {
	for slot := range churnRecvs {
		if err := s.postRecv(slot); err != nil {
			return err
		}
	}
	var wcs [4]verbs.WC
	for {
		for ; s.posted < s.count && s.posted-s.sent < churnSends; s.posted++ {
			slot, n := s.posted%churnSends*churnMessage, 1+s.posted*997%churnMessage
			s.mr.Do(func(b []byte) {
				if b != nil {
					stamp(b[slot:slot+n], s.host*8+s.peer, s.posted)
				}
			})
			wr := verbs.SendWR{ID: uint64(s.posted), Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{s.mr.SGE(slot, n)}}
			if err := s.qp.PostSend(&wr); err != nil {
				return err
			}
		}
		n, err := s.cq.Wait(ctx, wcs[:])
		if errors.Is(err, context.Canceled) {
			return nil
		} else if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := s.completed(&wcs[i]); err != nil {
				return err
			}
		}
	}
}

func (s *churnSide) postRecv(slot int) error {
	return s.qp.PostRecv(&verbs.RecvWR{ID: 1<<32 | uint64(slot),
		SGL: []verbs.SGE{s.mr.SGE((churnSends+slot)*churnMessage, churnMessage)}})
}

func (s *churnSide) completed(wc *verbs.WC) error {
	if wc.Status != verbs.StatusSuccess {
		return wc.Status.Err()
	}
	if wc.ID>>32 == 0 {
		if int(wc.ID) != s.sent {
			return wrongf("message %d completed when %d was next", wc.ID, s.sent)
		}
		s.sent++
		return nil
	}
	slot, n, good := int(wc.ID&0xffff), int(wc.ByteLen), true
	s.mr.Do(func(b []byte) {
		if b != nil {
			at := (churnSends + slot) * churnMessage
			good = n == 1+s.received*997%churnMessage && stamped(b[at:at+n], s.peer*8+s.host, s.received)
		}
	})
	if !good || s.received == s.count {
		return wrongf("message %d, of %d bytes, is not what was sent", s.received, n)
	}
	s.received++
	return s.postRecv(slot)
}
