// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/core/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// rolls are the objects that observers list. The view's lock covers them, besides the device's, so that observers wait for
// nobody who works with the device.
type rolls struct {
	qps  observe.Roll[*qp]
	cqs  observe.Roll[*cq]
	mrs  observe.Roll[*mr]
	mws  observe.Roll[*mw]
	srqs observe.Roll[*srq]
	ahs  observe.Roll[*handle]
}

// handle is what observers see of an address handle.
type handle struct {
	info  verbs.AHInfo
	place int
}

func (h *handle) listed() *handle { return h }

func (q *qp) Place() *int     { return &q.place }
func (c *cq) Place() *int     { return &c.place }
func (m *mr) Place() *int     { return &m.place }
func (m *mw) Place() *int     { return &m.place }
func (s *srq) Place() *int    { return &s.place }
func (h *handle) Place() *int { return &h.place }

// enroll adds an object. The device's lock is held.
func enroll[T observe.Member](d *Device, r *observe.Roll[T], m T) {
	d.view.Lock()
	defer d.view.Unlock()
	r.Add(m)
}

// strike removes an object, unless closing the device did. The device's lock is held.
func strike[T observe.Member](d *Device, r *observe.Roll[T], m T) {
	if d.closed {
		return
	}
	d.view.Lock()
	defer d.view.Unlock()
	r.Remove(m)
}

// describe returns what observers see of the region. The device's lock is held.
func (m *mr) describe(domain memory.PD) verbs.MRInfo {
	r := m.region
	return verbs.MRInfo{Key: r.Key(), PD: uint32(domain), Addr: r.Addr(), Len: uint64(len(r.Bytes())), Access: r.Access()}
}

// ObserveQPs lists queue pairs.
func (d *Device) ObserveQPs(page []verbs.QPInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.qps.Page(len(page), at)
	for i, q := range list {
		page[i] = verbs.QPInfo{QPStats: q.stats, PD: q.made.domain, SendCQ: q.made.sendCQ, RecvCQ: q.made.recvCQ, SRQ: q.made.srq}
		if q.why != nil {
			page[i].Failed = q.why.String()
		}
	}
	return len(list), next
}

// ObserveCQs lists completion queues.
func (d *Device) ObserveCQs(page []verbs.CQInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.cqs.Page(len(page), at)
	for i, c := range list {
		page[i] = verbs.CQInfo{Num: c.num, Capacity: c.q.Capacity(), Waiting: c.q.Len(), Armed: c.q.Armed(), Overflow: c.q.Err() != nil}
	}
	return len(list), next
}

// ObserveMRs lists memory regions.
func (d *Device) ObserveMRs(page []verbs.MRInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.mrs.Page(len(page), at)
	for i, m := range list {
		page[i] = m.info
	}
	return len(list), next
}

// ObserveMWs lists memory windows.
func (d *Device) ObserveMWs(page []verbs.MWInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.mws.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}

// ObserveSRQs lists shared receive queues.
func (d *Device) ObserveSRQs(page []verbs.SRQInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.srqs.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}

// ObserveAHs lists address handles.
func (d *Device) ObserveAHs(page []verbs.AHInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.rolls.ahs.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}
