// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// observed are the objects that observers list. The device's mu covers them, and the facts about objects that they
// show.
type observed struct {
	pds, xrcds int
	qps        observe.ObjectList[*qp]
	cqs        observe.ObjectList[*cq]
	mrs        observe.ObjectList[*mr]
	mws        observe.ObjectList[*mw]
	srqs       observe.ObjectList[*srq]
	ahs        observe.ObjectList[*ah]
}

// numbered is the number of an object, which tells it apart from the device's others, and its index in a list.
type numbered struct {
	id        uint32
	listIndex int
}

func (n *numbered) ListIndex() *int { return &n.listIndex }

// add adds an object, and gives it its number.
func (r *observed) add(o object, id uint32) {
	switch o := o.(type) {
	case *pd:
		o.id = id
		r.pds++
	case *xrcd:
		r.xrcds++
	case *qp:
		r.qps.Add(o)
	case *cq:
		o.id = id
		r.cqs.Add(o)
	case *mr:
		r.mrs.Add(o)
	case *mw:
		r.mws.Add(o)
	case *srq:
		o.id = id
		r.srqs.Add(o)
	case *ah:
		r.ahs.Add(o)
	}
}

// remove removes an object that was added.
func (r *observed) remove(o object) {
	switch o := o.(type) {
	case *pd:
		r.pds--
	case *xrcd:
		r.xrcds--
	case *qp:
		r.qps.Remove(o)
	case *cq:
		r.cqs.Remove(o)
	case *mr:
		r.mrs.Remove(o)
	case *mw:
		r.mws.Remove(o)
	case *srq:
		r.srqs.Remove(o)
	case *ah:
		r.ahs.Remove(o)
	}
}

// ObserveQPs lists queue pairs.
func (d *device) ObserveQPs(page []driver.QPInfo, at int) (n, next int) {
	d.mu.Lock()
	list, next := d.observed.qps.Page(len(page), at)
	qps := append([]*qp(nil), list...)
	d.mu.Unlock()
	for i, q := range qps { // whose locks are taken before the device's
		page[i] = q.made
		page[i].QPStats, _ = q.Stats()
	}
	return len(qps), next
}

// observePage fills in a page of a list.
func observePage[T observe.Member, I any](d *device, r *observe.ObjectList[T], page []I, at int, info func(T) I) (n,
	next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return observe.FillPage(r, page, at, info)
}

// ObserveCQs lists completion queues. How many completions wait only the device knows.
func (d *device) ObserveCQs(page []driver.CQInfo, at int) (n, next int) {
	return observePage(d, &d.observed.cqs, page, at, func(q *cq) driver.CQInfo {
		return driver.CQInfo{Num: q.id, Capacity: int(q.capacity.Load()), Armed: q.armed.Load(),
			Overflow: q.overflow.Load()}
	})
}

// ObserveMRs lists memory regions.
func (d *device) ObserveMRs(page []driver.MRInfo, at int) (n, next int) {
	return observePage(d, &d.observed.mrs, page, at, func(m *mr) driver.MRInfo { return m.info })
}

// ObserveMWs lists memory windows. The device alone knows their regions.
func (d *device) ObserveMWs(page []driver.MWInfo, at int) (n, next int) {
	return observePage(d, &d.observed.mws, page, at, func(w *mw) driver.MWInfo { return w.info })
}

// ObserveSRQs lists shared receive queues.
func (d *device) ObserveSRQs(page []driver.SRQInfo, at int) (n, next int) {
	return observePage(d, &d.observed.srqs, page, at, func(s *srq) driver.SRQInfo {
		info := s.info
		info.Num = s.id
		return info
	})
}

// ObserveAHs lists address handles.
func (d *device) ObserveAHs(page []driver.AHInfo, at int) (n, next int) {
	return observePage(d, &d.observed.ahs, page, at, func(a *ah) driver.AHInfo { return a.info })
}
