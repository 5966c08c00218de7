// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// xrcd is an XRC domain.
type xrcd struct {
	dev    *PacketDevice
	domain queue.Domain
}

// OpenXRCD opens an XRC domain.
func (d *PacketDevice) OpenXRCD() (driver.XRCD, error) {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.counts.xrcDomains.add(); err != nil {
		return nil, err
	}
	return &xrcd{dev: d, domain: queue.Domain{Queues: make(map[uint32]*queue.RecvQueue)}}, nil
}

func (x *xrcd) CreateTargetQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return x.dev.addQP(objectNumbersOf(0, init), events, func() (queuePair, error) { return x.dev.makeQP(0, &x.domain, init) })
}

// adopt gives a shared receive queue for XRC its number.
func (d *PacketDevice) adopt(s *srq, init *verbs.SRQInit) {
	if init.XRCD == nil {
		return
	}
	s.domain = &driver.XRCDOf(init.XRCD).(*xrcd).domain
	s.queue.CQ = driver.CQOf(init.CQ).(*cq).q
	for s.queue.Num == 0 || s.domain.Queues[s.queue.Num] != nil {
		s.queue.Num = random32() & 0xffffff
	}
	s.domain.Queues[s.queue.Num] = &s.queue
}

func (x *xrcd) Close() error {
	x.dev.lane.mu.Lock()
	defer x.dev.lane.mu.Unlock()
	x.dev.counts.xrcDomains.remove()
	return nil
}
