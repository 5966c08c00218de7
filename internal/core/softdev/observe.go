// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Observers of a device do not take the data lock, which a program may hold for long ([verbs.MR.Do]), and keep nobody
// from it. Engines count in plain variables. The thread that releases the data lock publishes them first: it copies
// them to the memory that observers read, under the view's lock, which nobody holds for longer than such a copy takes.
// While a program polls and finds something, most of these copies wait for a pass that finds nothing, or for the
// device's goroutine, which looks in every [GracePeriod].

// dataLock is the lock of a lane.
type dataLock struct {
	lockorder.Mutex[lockorder.Lane]
	Counted bool // something was, since the last publish
	later   bool // the holder will come back, or the device's goroutine will look
	publish func()
	several *laneLock // state of a device with several lanes; nil: it has one
}

// Lock takes the lock.
func (l *dataLock) Lock() {
	l.Mutex.Lock()
	if l.several != nil {
		l.several.enter()
	}
}

// TryLock takes the lock if it is free.
func (l *dataLock) TryLock() bool {
	if !l.Mutex.TryLock() {
		return false
	}
	if l.several != nil && !l.several.tryEnter() {
		l.Mutex.Unlock()
		return false
	}
	return true
}

// publishEvery is how many passes of a polling program that find something share a publish.
const publishEvery = 16

// Unlock releases the lock, and publishes the counters that have changed meanwhile, unless that can wait.
func (l *dataLock) Unlock() {
	l.show()
	if l.several != nil {
		l.several.leave()
	}
	l.Mutex.Unlock()
}

// show publishes the counters, unless that can wait.
func (l *dataLock) show() {
	if l.Counted && !l.later {
		l.Counted = false
		l.publish()
	}
	l.later = false
}

// publish shows the lane's counters to observers. The lock is held.
func (l *Lane) publish() {
	l.dev.view.Lock()
	defer l.dev.view.Unlock()
	l.transport.Publish()
	for i, q := range l.changed {
		q.protocol.Stats(&q.stats)
		if q.failure = q.protocol.Failure(); q.failure == nil {
			q.failure = q.injected
		}
		if q.Peer != (verbs.GID{}) {
			q.stats.DestGID = q.Peer
		}
		q.touched, l.changed[i] = false, nil
	}
	l.changed = l.changed[:0]
	l.dev.memory.Rebound(func(w *memory.Window) { w.Owner.(*mw).info = w.Description() })
}

// Touch notes that the statistics of a queue pair may have changed. The lock is held.
func (l *Lane) Touch(q *QP) {
	if !q.touched {
		q.touched = true
		l.changed = append(l.changed, q)
	}
}

// Stats returns the state and statistics of the queue pair.
func (q *QP) Stats() (verbs.QPStats, error) {
	q.dev.view.Lock()
	defer q.dev.view.Unlock()
	return q.stats, nil
}

// QPStats returns the statistics of all queue pairs.
func (d *Device) QPStats() ([]verbs.QPStats, error) {
	d.view.Lock()
	defer d.view.Unlock()
	all := make([]verbs.QPStats, 0, len(d.QPs))
	for _, q := range d.QPs {
		all = append(all, q.Common().stats)
	}
	return all, nil
}

// Metrics returns the metrics measured so far.
func (d *Device) Metrics() ([]metric.Metric, error) {
	d.view.Lock()
	list := d.fabric.Counted()
	d.view.Unlock()
	list = append(list, d.faultMetrics()...)
	c := &d.Counts
	for _, o := range []struct {
		name, help string
		count      *count
	}{
		{"pds", "protection domains", &c.domains}, {"mrs", "memory regions", &c.regions},
		{"mws", "memory windows", &c.windows},
		{"cqs", "completion queues", &c.completionQueues}, {"srqs", "shared receive queues", &c.receiveQueues},
		{"qps", "queue pairs", &c.queuePairs}, {"ahs", "address handles", &c.Handles},
		{"xrcds", "XRC domains", &c.XRCDomains},
	} {
		list = append(list, metric.Metric{Name: o.name, Kind: metric.Gauge, Unit: metric.UnitObjects, Help: o.help,
			Value: uint64(o.count.n.Load())})
	}
	return list, nil
}
