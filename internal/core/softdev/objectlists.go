// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// objectLists are the objects that observers list. The view's lock covers them, besides the device's, so that observers
// do not wait for threads that work with the device.
type objectLists struct {
	qps  observe.ObjectList[*QP]
	cqs  observe.ObjectList[*CQ]
	mrs  observe.ObjectList[*mr]
	mws  observe.ObjectList[*mw]
	srqs observe.ObjectList[*SRQ]
	ahs  observe.ObjectList[*ObservedAH]
}

// ObservedAH is an address handle as observers see it.
type ObservedAH struct {
	info      driver.AHInfo
	listIndex int
}

func (h *ObservedAH) observed() *ObservedAH { return h }

// Domain returns the protection domain of the handle.
func (h *ObservedAH) Domain() memory.PD { return memory.PD(h.info.PD) }

func (q *QP) ListIndex() *int         { return &q.listIndex }
func (c *CQ) ListIndex() *int         { return &c.listIndex }
func (m *mr) ListIndex() *int         { return &m.listIndex }
func (m *mw) ListIndex() *int         { return &m.listIndex }
func (s *SRQ) ListIndex() *int        { return &s.listIndex }
func (h *ObservedAH) ListIndex() *int { return &h.listIndex }

// addObject adds an object. The device's lock is held.
func addObject[T observe.Member](d *Device, r *observe.ObjectList[T], m T) {
	d.view.Lock()
	defer d.view.Unlock()
	r.Add(m)
}

// removeObject removes an object, unless closing the device did. The device's lock is held.
func removeObject[T observe.Member](d *Device, r *observe.ObjectList[T], m T) {
	if d.Closed.Load() {
		return
	}
	d.view.Lock()
	defer d.view.Unlock()
	r.Remove(m)
}

// RemoveAH removes an address handle from the list that observers see. The device's lock is held.
func (d *Device) RemoveAH(h *ObservedAH) { removeObject(d, &d.objects.ahs, h) }

// describe returns the description of the region for observers. The device's lock is held.
func (m *mr) describe(domain memory.PD) driver.MRInfo {
	r := m.region
	return driver.MRInfo{Key: r.Key(), PD: uint32(domain), Addr: r.Addr(), Len: uint64(len(r.Bytes())),
		Access: r.Access()}
}

// observePage fills in a page of a list.
func observePage[T observe.Member, I any](d *Device, r *observe.ObjectList[T], page []I, at int, info func(T) I) (n,
	next int) {
	d.view.Lock()
	defer d.view.Unlock()
	return observe.FillPage(r, page, at, info)
}

// ObserveQPs lists queue pairs.
func (d *Device) ObserveQPs(page []driver.QPInfo, at int) (n, next int) {
	return observePage(d, &d.objects.qps, page, at, func(q *QP) driver.QPInfo {
		info := driver.QPInfo{QPStats: q.stats, PD: q.numbers.domain, SendCQ: q.numbers.sendCQ,
			RecvCQ: q.numbers.recvCQ, SRQ: q.numbers.srq}
		if q.failure != nil {
			info.Failed = q.failure.String()
		}
		return info
	})
}

// ObserveCQs lists completion queues.
func (d *Device) ObserveCQs(page []driver.CQInfo, at int) (n, next int) {
	return observePage(d, &d.objects.cqs, page, at, func(c *CQ) driver.CQInfo {
		return driver.CQInfo{Num: c.num, Capacity: c.Queue.Capacity(), Waiting: c.Queue.Len(), Armed: c.Queue.Armed(),
			Overflow: c.Queue.Err() != nil}
	})
}

// ObserveMRs lists memory regions.
func (d *Device) ObserveMRs(page []driver.MRInfo, at int) (n, next int) {
	return observePage(d, &d.objects.mrs, page, at, func(m *mr) driver.MRInfo { return m.info })
}

// ObserveMWs lists memory windows.
func (d *Device) ObserveMWs(page []driver.MWInfo, at int) (n, next int) {
	return observePage(d, &d.objects.mws, page, at, func(w *mw) driver.MWInfo { return w.info })
}

// ObserveSRQs lists shared receive queues.
func (d *Device) ObserveSRQs(page []driver.SRQInfo, at int) (n, next int) {
	return observePage(d, &d.objects.srqs, page, at, func(s *SRQ) driver.SRQInfo { return s.info })
}

// ObserveAHs lists address handles.
func (d *Device) ObserveAHs(page []driver.AHInfo, at int) (n, next int) {
	return observePage(d, &d.objects.ahs, page, at, func(h *ObservedAH) driver.AHInfo { return h.info })
}
