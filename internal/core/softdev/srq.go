// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// srq is a shared receive queue.
type srq struct {
	dev       *Device
	queue     queue.RecvQueue
	domain    *queue.Domain // XRC
	events    func(verbs.EventType)
	posted    func(*srq)     // nil: nobody waits for receives
	info      driver.SRQInfo // as observers see it
	listIndex int
}

func (p *pd) CreateSRQ(init *verbs.SRQInit, events func(verbs.EventType)) (driver.SRQ, error) {
	if init.MaxWR > maxSRQWR || init.MaxSGE > maxSGE {
		return nil, &verbs.OpError{Op: "create_srq", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("MaxWR %d, MaxSGE %d: the device's limits are %d and %d", init.MaxWR, init.MaxSGE, maxSRQWR, maxSGE)}
	}
	d := p.dev
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_srq", nil); err != nil {
		return nil, err
	}
	if err := d.counts.receiveQueues.add(); err != nil {
		return nil, err
	}
	s := &srq{dev: d, events: events}
	s.queue = queue.RecvQueue{PD: p.num, MaxWR: init.MaxWR, MaxSGE: init.MaxSGE, Shared: true, Owner: s, Slots: d.shared.NewSlots()}
	d.fabric.adopt(s, init)
	d.nextSRQ++
	s.info = driver.SRQInfo{Num: d.nextSRQ, PD: uint32(p.num), XRC: s.queue.Num, Capacity: init.MaxWR}
	addObject(d, &d.objects.srqs, s)
	return s, nil
}

func (s *srq) raise(t verbs.EventType) { s.events(t) }

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) { return postInParts(wrs, s.postRecv) }

func (s *srq) postRecv(wrs []verbs.RecvWR) (int, error) {
	s.dev.lane.mu.Lock()
	defer s.dev.lane.mu.Unlock()
	if s.dev.lane.closed {
		return 0, verbs.ErrClosed
	}
	if err := s.dev.refuses("post_srq_recv", nil); err != nil {
		return 0, err
	}
	n, err := s.queue.Post(wrs)
	if s.posted != nil {
		s.posted(s)
	}
	return n, err
}

func (s *srq) Modify(attr verbs.SRQAttr, mask verbs.SRQMask) error {
	s.dev.lane.mu.Lock()
	defer s.dev.lane.mu.Unlock()
	invalid := func(why string) error { return &verbs.OpError{Op: "modify_srq", Err: verbs.ErrInvalid, Detail: why} }
	if err := s.dev.refuses("modify_srq", nil); err != nil {
		return err
	}
	maxWR, limit := s.queue.MaxWR, s.queue.Limit
	if mask&^(verbs.SRQMaxWR|verbs.SRQLimit) != 0 {
		return invalid("the mask has bits that mean nothing")
	}
	if mask&verbs.SRQMaxWR != 0 {
		if maxWR = attr.MaxWR; maxWR < s.queue.Held() || maxWR <= 0 || maxWR > maxSRQWR {
			return invalid("MaxWR is below what is posted, or beyond the device's limit")
		}
	}
	if mask&verbs.SRQLimit != 0 {
		limit = attr.Limit
	}
	if limit < 0 || limit > maxWR {
		return invalid("Limit is beyond MaxWR")
	}
	s.queue.MaxWR, s.queue.Limit = maxWR, limit
	s.dev.view.Lock()
	defer s.dev.view.Unlock()
	s.info.Capacity, s.info.Limit = maxWR, limit
	return nil
}

func (s *srq) Query() verbs.SRQAttr {
	s.dev.lane.mu.Lock()
	defer s.dev.lane.mu.Unlock()
	return verbs.SRQAttr{MaxWR: s.queue.MaxWR, MaxSGE: s.queue.MaxSGE, Limit: s.queue.Limit}
}

func (s *srq) Num() uint32 { return s.queue.Num }

func (s *srq) Destroy() error {
	s.dev.lane.mu.Lock()
	defer s.dev.lane.mu.Unlock()
	removeObject(s.dev, &s.dev.objects.srqs, s)
	s.dev.counts.receiveQueues.remove()
	if s.domain != nil {
		delete(s.domain.Queues, s.queue.Num)
	}
	return nil
}
