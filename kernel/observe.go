// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// rolls are the objects that observers list. The device's mu covers them, and what they show of objects.
type rolls struct {
	pds, xrcds int
	qps        observe.ObjectList[*qp]
	cqs        observe.ObjectList[*cq]
	mrs        observe.ObjectList[*mr]
	mws        observe.ObjectList[*mw]
	srqs       observe.ObjectList[*srq]
	ahs        observe.ObjectList[*ah]
}

// numbered is the number of an object, which tells it apart from the device's others, and its place in a roll.
type numbered struct {
	id    uint32
	place int
}

func (n *numbered) ListIndex() *int { return &n.place }

// enter adds an object, and gives it its number.
func (r *rolls) enter(o object, id uint32) {
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

// strike removes an object that was entered.
func (r *rolls) strike(o object) {
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
func (d *device) ObserveQPs(page []verbs.QPInfo, at int) (n, next int) {
	d.mu.Lock()
	list, next := d.rolls.qps.Page(len(page), at)
	qps := append([]*qp(nil), list...)
	d.mu.Unlock()
	for i, q := range qps { // whose locks are taken before the device's
		page[i] = q.made
		page[i].QPStats, _ = q.Stats()
	}
	return len(qps), next
}

// ObserveCQs lists completion queues. How many completions wait only the device knows.
func (d *device) ObserveCQs(page []verbs.CQInfo, at int) (n, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, next := d.rolls.cqs.Page(len(page), at)
	for i, q := range list {
		page[i] = verbs.CQInfo{Num: q.id, Capacity: int(q.capacity.Load()), Armed: q.armed.Load(), Overflow: q.overflow.Load()}
	}
	return len(list), next
}

// ObserveMRs lists memory regions.
func (d *device) ObserveMRs(page []verbs.MRInfo, at int) (n, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, next := d.rolls.mrs.Page(len(page), at)
	for i, m := range list {
		page[i] = m.info
	}
	return len(list), next
}

// ObserveMWs lists memory windows. What they are bound to the device knows.
func (d *device) ObserveMWs(page []verbs.MWInfo, at int) (n, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, next := d.rolls.mws.Page(len(page), at)
	for i, w := range list {
		page[i] = w.info
	}
	return len(list), next
}

// ObserveSRQs lists shared receive queues.
func (d *device) ObserveSRQs(page []verbs.SRQInfo, at int) (n, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, next := d.rolls.srqs.Page(len(page), at)
	for i, s := range list {
		page[i] = s.info
		page[i].Num = s.id
	}
	return len(list), next
}

// ObserveAHs lists address handles.
func (d *device) ObserveAHs(page []verbs.AHInfo, at int) (n, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, next := d.rolls.ahs.Page(len(page), at)
	for i, a := range list {
		page[i] = a.info
	}
	return len(list), next
}
