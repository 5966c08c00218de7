// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

const (
	// maxHistories bounds the histories of all objects: with 120 samples and 120 coarse ones each, to some 200 MB.
	maxHistories = 4096
	// maxGone bounds the objects that are gone and still there to be looked at.
	maxGone = 512
)

// Tracker follows processes. It is for one goroutine at a time, and so are its results: an update changes them.
type Tracker struct {
	keep      int
	linger    time.Duration
	ids       uint64
	histories int
	gone      int
	list      []*Process
}

// NewTracker returns a Tracker that keeps up to keep samples of each object, and objects that are gone for linger.
func NewTracker(keep int, linger time.Duration) *Tracker {
	return &Tracker{keep: max(keep, 1), linger: linger}
}

// Processes returns the processes, gone ones last, otherwise by their ids.
func (t *Tracker) Processes() []*Process { return t.list }

// Sum returns the work of all processes in their last interval, as one sample of at. It is over as long as the longest
// of these intervals; what each did is put at its own rate.
func (t *Tracker) Sum(at time.Time) Sample {
	sum := Sample{At: at}
	for _, p := range t.list {
		sum.Over = max(sum.Over, p.Now.Over)
	}
	for _, p := range t.list {
		if p.Now.Over <= 0 {
			continue
		}
		s := p.Now
		for _, c := range counters(&s.Counts) {
			*c = uint64(s.PerSecond(*c)*sum.Over.Seconds() + 0.5)
		}
		sum.add(&s)
		sum.Waiting += s.Waiting
	}
	return sum
}

// QP returns the queue pair with an ID of its Activity, or nil.
func (t *Tracker) QP(id uint64) *QP {
	for _, p := range t.list {
		for _, d := range p.Devices {
			for _, q := range d.QPs {
				if q.ID == id {
					return q
				}
			}
		}
	}
	return nil
}

// Update takes the snapshots of all processes that were read at now. A process that is not among found is gone.
func (t *Tracker) Update(now time.Time, found []statsocket.Process) {
	t.forget(now)
	old := map[processKey]*Process{}
	for _, p := range t.list {
		if p.Gone.IsZero() {
			old[p.key()] = p
		}
	}
	var next []*Process
	for i := range found {
		f := &found[i]
		key := processKey{f.PID, f.Instance}
		p := old[key]
		delete(old, key)
		if p == nil {
			p = &Process{Activity: t.begin(now), PID: f.PID, instance: f.Instance}
		}
		p.UID, p.Command, p.Err = f.UID, f.Command, f.Err
		if f.State != nil && f.Err == nil {
			t.process(p, f)
		}
		next = append(next, p)
	}
	slices.SortStableFunc(next, func(a, b *Process) int { return cmp.Compare(a.PID, b.PID) })
	for _, p := range t.list {
		if old[p.key()] != p { // it is in next, or was gone before
			if !p.Gone.IsZero() {
				next = append(next, p)
			}
			continue
		}
		if !t.leaves(&p.Activity, now) {
			t.dropProcess(p)
			continue
		}
		for _, d := range p.Devices {
			d.leave(now)
		}
		next = append(next, p)
	}
	t.list = next
}

func (t *Tracker) begin(at time.Time) Activity {
	t.ids++
	return Activity{ID: t.ids, Since: at}
}

// record ends an interval of an object.
func (t *Tracker) record(a *Activity, s Sample) {
	a.Now = s
	if a.Past.Empty() {
		if s.Counts == (metric.QPCounts{}) || t.histories == maxHistories {
			return
		}
		t.histories++
	}
	a.Past.Add(s, t.keep)
}

// leaves returns whether an object that is gone stays to be looked at.
func (t *Tracker) leaves(a *Activity, now time.Time) bool {
	if a.Past.Empty() || t.gone == maxGone {
		return false
	}
	t.gone++
	a.lingers = true
	a.leave(now)
	return true
}

// drop takes an object that leaves for good out of the bounds.
func (t *Tracker) drop(a *Activity) {
	if !a.Past.Empty() {
		t.histories--
	}
	if a.lingers {
		t.gone--
	}
}

func (t *Tracker) dropDevice(d *Device) {
	t.drop(&d.Activity)
	for _, q := range d.QPs {
		t.drop(&q.Activity)
	}
}

func (t *Tracker) dropProcess(p *Process) {
	t.drop(&p.Activity)
	for _, d := range p.Devices {
		t.dropDevice(d)
	}
}

// over reports whether an object has been gone for long enough.
func (t *Tracker) over(a *Activity, now time.Time) bool {
	return a.lingers && now.Sub(a.Gone) >= t.linger
}

// forget drops objects that have been gone for long enough, with all objects that they have.
func (t *Tracker) forget(now time.Time) {
	t.list = slices.DeleteFunc(t.list, func(p *Process) bool {
		if t.over(&p.Activity, now) {
			t.dropProcess(p)
			return true
		}
		p.Devices = slices.DeleteFunc(p.Devices, func(d *Device) bool {
			if t.over(&d.Activity, now) {
				t.dropDevice(d)
				return true
			}
			d.QPs = slices.DeleteFunc(d.QPs, func(q *QP) bool {
				if !t.over(&q.Activity, now) {
					return false
				}
				t.drop(&q.Activity)
				return true
			})
			return false
		})
		return false
	})
}

// process takes a snapshot of a process.
func (t *Tracker) process(p *Process, f *statsocket.Process) {
	over := time.Duration(0)
	if !p.read.IsZero() {
		over = f.At.Sub(p.read)
	}
	first := p.read.IsZero()
	if !first && over <= 0 {
		return // the clock says that it is not later: there is no rate
	}
	p.read = f.At
	sum := Sample{At: f.At, Over: over}
	left := slices.Clone(p.Devices)
	var next []*Device
	for i := range f.State.Devices {
		info := &f.State.Devices[i]
		at := slices.IndexFunc(left, func(d *Device) bool { return d.Gone.IsZero() && d.Info.Name == info.Name })
		var d *Device
		if at >= 0 {
			d = left[at]
			left = slices.Delete(left, at, at+1)
		} else {
			d = &Device{Activity: t.begin(f.At), Process: p, Info: &observe.Device{Name: info.Name}}
		}
		s := t.device(d, info, Sample{At: f.At, Over: over})
		sum.add(&s)
		sum.Waiting += s.Waiting
		next = append(next, d)
	}
	for _, d := range left {
		switch {
		case !d.Gone.IsZero():
			next = append(next, d)
		case t.leaves(&d.Activity, f.At):
			d.leave(f.At)
			next = append(next, d)
		default:
			t.dropDevice(d)
		}
	}
	p.Devices = next
	t.record(&p.Activity, sum)
}

// device takes a snapshot of a device, and returns the sum of its queue pairs' events.
func (t *Tracker) device(d *Device, info *observe.Device, sum Sample) Sample {
	d.Rates = rates(d.Info.Metrics, info.Metrics, &sum)
	d.Info = info
	waiting := map[uint32]int{}
	for i := range info.CQs {
		waiting[info.CQs[i].Num] = info.CQs[i].Waiting
		sum.Waiting += info.CQs[i].Waiting
	}
	old := make(map[verbs.QPN]*QP, len(d.QPs))
	for _, q := range d.QPs {
		if q.Gone.IsZero() {
			old[q.Info.QPN] = q
		}
	}
	next := make([]*QP, 0, len(info.QPs))
	seen := make(map[verbs.QPN]bool, len(info.QPs))
	for i := range info.QPs {
		now := &info.QPs[i]
		if seen[now.QPN] {
			continue // a listing may have one twice
		}
		seen[now.QPN] = true
		q := old[now.QPN]
		var did metric.QPCounts
		same := false
		if q != nil {
			did, same = q.same(now)
		}
		if !same {
			q = &QP{Activity: t.begin(sum.At), Device: d}
			if did = now.QPCounts; sum.Over == 0 {
				did = metric.QPCounts{}
			}
		} else {
			delete(old, now.QPN)
			if q.Info.State != now.State {
				q.StateChanged = sum.At
			}
		}
		q.Info = *now
		s := Sample{At: sum.At, Over: sum.Over, Counts: did, SendQueue: now.SendQueue, RecvQueue: now.RecvQueue,
			InFlight: now.InFlight, Window: now.Window, Rate: now.Rate, Alpha: now.Alpha, RTT: now.RTT,
			RTTVar:  now.RTTVar,
			Waiting: waiting[now.SendCQ]}
		if now.RecvCQ != now.SendCQ {
			s.Waiting += waiting[now.RecvCQ]
		}
		t.record(&q.Activity, s)
		sum.add(&s)
		next = append(next, q)
	}
	slices.SortFunc(next, func(a, b *QP) int { return cmp.Compare(a.Info.QPN, b.Info.QPN) })
	for _, q := range d.QPs {
		gone := !q.Gone.IsZero()
		if !gone && old[q.Info.QPN] != q {
			continue // it is in next
		}
		if gone || t.leaves(&q.Activity, sum.At) {
			next = append(next, q)
		} else {
			t.drop(&q.Activity)
		}
	}
	d.QPs = next
	t.record(&d.Activity, sum)
	return sum
}

// rates returns how fast a device's counters grew. A counter that is less than before began anew.
func rates(from, to []observe.Metric, over *Sample) map[string]float64 {
	if over.Over == 0 {
		return nil
	}
	was := make(map[string]uint64, len(from))
	for i := range from {
		was[from[i].Name] = from[i].Value
	}
	all := map[string]float64{}
	for i := range to {
		m := &to[i]
		if m.Gauge {
			continue
		}
		by := m.Value
		if before := was[m.Name]; before <= by {
			by -= before
		}
		if by != 0 {
			all[m.Name] = over.PerSecond(by)
		}
	}
	return all
}
