// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// SRQ is a shared receive queue.
type SRQ struct {
	dev       *Device
	Queue     queue.RecvQueue
	Domain    *queue.Domain // XRC
	events    func(verbs.EventType)
	Posted    func(*SRQ)     // called with the lane's lock held; nil: no message waits for a receive
	info      driver.SRQInfo // as observers see it
	listIndex int
}

func (p *pd) CreateSRQ(init *verbs.SRQInit, events func(verbs.EventType)) (driver.SRQ, error) {
	if init.MaxWR > maxSRQWR || init.MaxSGE > maxSGE {
		return nil, &verbs.OpError{Op: "create_srq", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("MaxWR %d, MaxSGE %d: the device's limits are %d and %d", init.MaxWR, init.MaxSGE,
				maxSRQWR, maxSGE)}
	}
	d := p.dev
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_srq", nil); err != nil {
		return nil, err
	}
	if err := d.Counts.receiveQueues.Add(); err != nil {
		return nil, err
	}
	s := &SRQ{dev: d, events: events}
	s.Queue = queue.RecvQueue{PD: p.num, MaxWR: init.MaxWR, MaxSGE: init.MaxSGE, Shared: true, Owner: s,
		Slots: d.shared.NewSlots()}
	d.fabric.Adopt(s, init)
	d.nextSRQ++
	s.info = driver.SRQInfo{Num: d.nextSRQ, PD: uint32(p.num), XRC: s.Queue.Num, Capacity: init.MaxWR}
	addObject(d, &d.objects.srqs, s)
	return s, nil
}

func (s *SRQ) raise(t verbs.EventType) { s.events(t) }

func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (int, error) { return postInParts(wrs, s.postRecv) }

func (s *SRQ) postRecv(wrs []verbs.RecvWR) (int, error) {
	if s.dev.Closed.Load() {
		return 0, verbs.ErrClosed
	}
	if err := s.dev.FailCall("post_srq_recv"); err != nil {
		return 0, err
	}
	n, err := s.Queue.Post(wrs)
	if s.Posted != nil {
		s.dev.Lane.Mu.Lock()
		defer s.dev.Lane.Mu.Unlock()
		if !s.dev.Closed.Load() {
			s.Posted(s)
		}
	}
	return n, err
}

func (s *SRQ) Modify(attr verbs.SRQAttr, mask verbs.SRQMask) error {
	if err := s.dev.FailCall("modify_srq"); err != nil {
		return err
	}
	s.dev.view.Lock() // outside the queue's lock, so that observers see the last change
	defer s.dev.view.Unlock()
	attr, err := s.Queue.Modify(attr, mask, maxSRQWR)
	if err == nil {
		s.info.Capacity, s.info.Limit = attr.MaxWR, attr.Limit
	}
	return err
}

func (s *SRQ) Query() verbs.SRQAttr { return s.Queue.Attr() }

func (s *SRQ) Num() uint32 { return s.Queue.Num }

func (s *SRQ) Destroy() error {
	s.dev.Lock()
	defer s.dev.Unlock()
	removeObject(s.dev, &s.dev.objects.srqs, s)
	s.dev.Counts.receiveQueues.Remove()
	if s.Domain != nil {
		delete(s.Domain.Queues, s.Queue.Num)
	}
	return nil
}
