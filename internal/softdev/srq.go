// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// srq is a shared receive queue.
type srq struct {
	dev    *core
	queue  queue.RecvQueue
	domain *ibta.Domain // XRC
	events func(verbs.EventType)
	posted func(*srq) // nil: nobody waits for receives
}

func (p *pd) CreateSRQ(spec verbs.SRQSpec) (verbs.SRQDriver, error) {
	s, err := p.createSRQ(&spec)
	if err != nil || spec.XRCD == nil {
		return s, err
	}
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	s.domain = &spec.XRCD.(*xrcd).domain
	s.queue.CQ = spec.CQ.(*cq).q
	for s.queue.Num == 0 || s.domain.Queues[s.queue.Num] != nil {
		s.queue.Num = random32() & 0xffffff
	}
	s.domain.Queues[s.queue.Num] = &s.queue
	return s, nil
}

func (p *domain) createSRQ(spec *verbs.SRQSpec) (*srq, error) {
	if spec.MaxWR > maxSRQWR || spec.MaxSGE > maxSGE {
		return nil, verbs.ErrInvalid
	}
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.counts.queues.add(); err != nil {
		return nil, err
	}
	s := &srq{dev: d, events: spec.Events}
	s.queue = queue.RecvQueue{PD: p.num, MaxWR: spec.MaxWR, MaxSGE: spec.MaxSGE, Shared: true, Owner: s}
	return s, nil
}

func (s *srq) raise(t verbs.EventType) { s.events(t) }

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) { return inTurns(wrs, s.postRecv) }

func (s *srq) postRecv(wrs []verbs.RecvWR) (int, error) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.dev.closed {
		return 0, verbs.ErrClosed
	}
	n, err := s.queue.Post(wrs)
	if s.posted != nil {
		s.posted(s)
	}
	return n, err
}

func (s *srq) Modify(attr verbs.SRQAttr, mask verbs.SRQMask) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	maxWR := s.queue.MaxWR
	if mask&verbs.SRQMaxWR != 0 {
		if attr.MaxWR < s.queue.Len() || attr.MaxWR <= 0 || attr.MaxWR > maxSRQWR {
			return &verbs.OpError{Op: "modify_srq", Err: verbs.ErrInvalid, Detail: "MaxWR is below what is posted, or beyond the device's limit"}
		}
		maxWR = attr.MaxWR
	}
	if mask&verbs.SRQLimit != 0 {
		if attr.Limit < 0 || attr.Limit > maxWR {
			return &verbs.OpError{Op: "modify_srq", Err: verbs.ErrInvalid, Detail: "Limit is beyond MaxWR"}
		}
		s.queue.Limit = attr.Limit
	}
	s.queue.MaxWR = maxWR
	return nil
}

func (s *srq) Query() verbs.SRQAttr {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return verbs.SRQAttr{MaxWR: s.queue.MaxWR, MaxSGE: s.queue.MaxSGE, Limit: s.queue.Limit}
}

func (s *srq) Num() uint32 { return s.queue.Num }

func (s *srq) Destroy() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.dev.counts.queues.remove()
	if s.domain != nil {
		delete(s.domain.Queues, s.queue.Num)
	}
	return nil
}
