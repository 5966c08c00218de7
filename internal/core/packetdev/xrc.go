// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// xrcd is an XRC domain.
type xrcd struct {
	dev    *Device
	domain queue.Domain
}

// OpenXRCD opens an XRC domain.
func (d *Device) OpenXRCD() (driver.XRCD, error) {
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := d.Counts.XRCDomains.Add(); err != nil {
		return nil, err
	}
	return &xrcd{dev: d, domain: queue.Domain{Queues: make(map[uint32]*queue.RecvQueue)}}, nil
}

func (x *xrcd) CreateTargetQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return x.dev.AddQP(softdev.NumbersOf(0, init), events,
		func() (softdev.QueuePair, error) { return x.dev.makeQP(0, &x.domain, init) })
}

// Adopt gives a shared receive queue for XRC its number.
func (d *Device) Adopt(s *softdev.SRQ, init *verbs.SRQInit) {
	if init.XRCD == nil {
		return
	}
	s.Domain = &driver.XRCDOf(init.XRCD).(*xrcd).domain
	for _, l := range d.Lanes { // whose queue pairs share it
		s.Queue.CQ = driver.CQOf(init.CQ).(*softdev.CQ).FedBy(l)
	}
	for s.Queue.Num == 0 || s.Domain.Queues[s.Queue.Num] != nil {
		s.Queue.Num = softdev.Random32() & 0xffffff
	}
	s.Domain.Queues[s.Queue.Num] = &s.Queue
}

func (x *xrcd) Close() error {
	x.dev.Lock()
	defer x.dev.Unlock()
	x.dev.Counts.XRCDomains.Remove()
	return nil
}
