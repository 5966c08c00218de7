// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Activity holds the figures that all objects have.
type Activity struct {
	ID    uint64    // among all objects that the Tracker ever had
	Since time.Time // of the first snapshot that has it
	Gone  time.Time // of the first that does not; zero: it is there
	Now   Sample    // the last interval

	Past    History // from the first interval in which it moved something
	lingers bool    // it is gone by itself, not with its device or process
}

// History returns up to n samples, the oldest first. There is none from before the object moved something.
func (a *Activity) History(n int) []Sample { return a.Past.Last(n) }

// leave says that the object is gone, unless that was known.
func (a *Activity) leave(now time.Time) {
	if a.Gone.IsZero() {
		a.Gone, a.Now = now, Sample{At: now}
	}
}

// leave says that the device is gone, with all that it has.
func (d *Device) leave(now time.Time) {
	d.Activity.leave(now)
	d.Rates = nil
	for _, q := range d.QPs {
		q.leave(now)
	}
}

// Process is a process with open devices.
type Process struct {
	Activity
	PID     int
	UID     int
	Command string
	Err     error     // why its last snapshot could not be read; the other fields are then older
	Devices []*Device // in the order of their opening; gone ones last

	instance uint64
	read     time.Time // when its last snapshot was; zero: never
}

// processKey identifies a process.
type processKey struct {
	pid      int
	instance uint64
}

func (p *Process) key() processKey { return processKey{p.PID, p.instance} }

// Device is a device of a process.
type Device struct {
	Activity
	Process *Process
	Info    *observe.Device    // its last snapshot, not to be changed
	Rates   map[string]float64 // of its own counters, per second, by the names in Info.Metrics; without unchanged ones
	QPs     []*QP              // by number; gone ones last
}

// QP is a queue pair.
type QP struct {
	Activity
	Device       *Device
	Info         driver.QPInfo // of its last snapshot
	StateChanged time.Time     // of the snapshot in which its state was another than before; zero: none
}

// same reports whether a queue pair of a later snapshot is q, and returns the events meanwhile.
func (q *QP) same(later *driver.QPInfo) (metric.QPCounts, bool) {
	was := &q.Info
	if was.QPN != later.QPN || was.Type != later.Type || was.PD != later.PD || was.SendCQ != later.SendCQ ||
		was.RecvCQ != later.RecvCQ {
		return metric.QPCounts{}, false
	}
	return growth(&was.QPCounts, &later.QPCounts)
}
