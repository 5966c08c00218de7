// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/core/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// objectLists are the objects that observers list. The view's lock covers them, besides the device's, so that observers wait for
// nobody who works with the device.
type objectLists struct {
	qps  observe.ObjectList[*qp]
	cqs  observe.ObjectList[*cq]
	mrs  observe.ObjectList[*mr]
	mws  observe.ObjectList[*mw]
	srqs observe.ObjectList[*srq]
	ahs  observe.ObjectList[*observedAH]
}

// observedAH is what observers see of an address handle.
type observedAH struct {
	info      verbs.AHInfo
	listIndex int
}

func (h *observedAH) observed() *observedAH { return h }

func (q *qp) ListIndex() *int         { return &q.listIndex }
func (c *cq) ListIndex() *int         { return &c.listIndex }
func (m *mr) ListIndex() *int         { return &m.listIndex }
func (m *mw) ListIndex() *int         { return &m.listIndex }
func (s *srq) ListIndex() *int        { return &s.listIndex }
func (h *observedAH) ListIndex() *int { return &h.listIndex }

// addObject adds an object. The device's lock is held.
func addObject[T observe.Member](d *Device, r *observe.ObjectList[T], m T) {
	d.view.Lock()
	defer d.view.Unlock()
	r.Add(m)
}

// removeObject removes an object, unless closing the device did. The device's lock is held.
func removeObject[T observe.Member](d *Device, r *observe.ObjectList[T], m T) {
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
	list, next := d.objects.qps.Page(len(page), at)
	for i, q := range list {
		page[i] = verbs.QPInfo{QPStats: q.stats, PD: q.numbers.domain, SendCQ: q.numbers.sendCQ, RecvCQ: q.numbers.recvCQ, SRQ: q.numbers.srq}
		if q.failure != nil {
			page[i].Failed = q.failure.String()
		}
	}
	return len(list), next
}

// ObserveCQs lists completion queues.
func (d *Device) ObserveCQs(page []verbs.CQInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.objects.cqs.Page(len(page), at)
	for i, c := range list {
		page[i] = verbs.CQInfo{Num: c.num, Capacity: c.q.Capacity(), Waiting: c.q.Len(), Armed: c.q.Armed(), Overflow: c.q.Err() != nil}
	}
	return len(list), next
}

// ObserveMRs lists memory regions.
func (d *Device) ObserveMRs(page []verbs.MRInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.objects.mrs.Page(len(page), at)
	for i, m := range list {
		page[i] = m.info
	}
	return len(list), next
}

// ObserveMWs lists memory windows.
func (d *Device) ObserveMWs(page []verbs.MWInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.objects.mws.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}

// ObserveSRQs lists shared receive queues.
func (d *Device) ObserveSRQs(page []verbs.SRQInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.objects.srqs.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}

// ObserveAHs lists address handles.
func (d *Device) ObserveAHs(page []verbs.AHInfo, at int) (n, next int) {
	d.view.Lock()
	defer d.view.Unlock()
	list, next := d.objects.ahs.Page(len(page), at)
	for i, o := range list {
		page[i] = o.info
	}
	return len(list), next
}
