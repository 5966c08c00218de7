// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// qp returns a queue pair that has sent so many messages of 1000 bytes.
func qp(n verbs.QPN, messages uint64) driver.QPInfo {
	q := driver.QPInfo{PD: 1, SendCQ: 1, RecvCQ: 2}
	q.QPStats = verbs.QPStats{QPN: n, Type: verbs.RC, State: verbs.StateRTS, RTT: time.Duration(n) * time.Microsecond,
		Window: 5000}
	q.SentMessages, q.SentBytes, q.RNRs, q.SentRNRs = messages, 1000*messages, messages/10, messages/5
	return q
}

// process returns a snapshot of process 7 with one device.
func process(when time.Time, instance uint64, qps ...driver.QPInfo) []statsocket.Process {
	d := observe.Device{Name: "roce:127.0.0.1", QPs: qps,
		CQs: []driver.CQInfo{{Num: 1, Waiting: 3}, {Num: 2, Waiting: 4}, {Num: 9, Waiting: 5}}}
	return []statsocket.Process{{PID: 7, Instance: instance, Command: "kv", At: when,
		State: &observe.Process{Devices: []observe.Device{d}}}}
}

// only returns the only queue pair.
func only(t *testing.T, r *Tracker) *QP {
	t.Helper()
	if len(r.list) != 1 || len(r.list[0].Devices) != 1 || len(r.list[0].Devices[0].QPs) != 1 {
		t.Fatalf("%d processes: %+v", len(r.list), r.list)
	}
	return r.list[0].Devices[0].QPs[0]
}

// Rates are counts divided by the time between the reads of a process.
func TestRates(t *testing.T) {
	r := NewTracker(10, time.Minute)
	r.Update(at(1), process(at(1), 1, qp(17, 100)))
	q := only(t, r)
	if n := q.Now.PerSecond(q.Now.Messages()); n != 0 || len(q.History(10)) != 0 {
		t.Errorf("%v messages/s after one snapshot", n)
	}
	r.Update(at(9), process(at(3), 1, qp(17, 300)))
	q = only(t, r)
	for _, a := range []*Activity{&q.Activity, &q.Device.Activity, &q.Device.Process.Activity} {
		s := a.Now
		if m, b, n := s.PerSecond(s.Messages()), s.PerSecond(s.Bytes()), s.PerSecond(s.RNRs()); m != 100 ||
			b != 100_000 || n != 30 {
			t.Errorf("%v messages, %v bytes, %v RNR NAKs a second: %+v", m, b, n, s)
		}
		if s.RTT != 17*time.Microsecond || len(a.History(10)) != 1 || !a.Gone.IsZero() {
			t.Errorf("%+v", a)
		}
	}
	if q.Now.Waiting != 7 || q.Device.Now.Waiting != 12 || q.Device.Process.Now.Waiting != 12 {
		t.Errorf("%d, %d and %d completions wait", q.Now.Waiting, q.Device.Now.Waiting, q.Device.Process.Now.Waiting)
	}
	if q.Now.Window != 5000 || q.Device.Now.Window != 0 {
		t.Errorf("windows of %d and %d", q.Now.Window, q.Device.Now.Window)
	}
	r.Update(at(10), process(at(3), 1, qp(17, 400))) // a clock that stands still
	if got := only(t, r); got != q || got.Now.PerSecond(1) != 0.5 {
		t.Errorf("%+v", got)
	}
}

// The newest samples are kept, from the first that moved something on.
func TestHistory(t *testing.T) {
	r := NewTracker(4, time.Minute)
	for i, n := range []uint64{0, 0, 0, 1, 3, 3, 7, 15, 31} {
		r.Update(at(float64(i)), process(at(float64(i)), 1, qp(17, n)))
	}
	got := only(t, r).History(100)
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []uint64{0, 4, 8, 16} {
		if got[i].Counts.SentMessages != want || got[i].At != at(float64(5+i)) {
			t.Errorf("sample %d: %+v", i, got[i])
		}
	}
	if got := only(t, r).History(2); len(got) != 2 || got[1].Counts.SentMessages != 16 {
		t.Errorf("%+v", got)
	}
}

// An object created between two snapshots began at zero; an object with another's number is a new one.
func TestComeAndGo(t *testing.T) {
	r := NewTracker(10, 5*time.Second)
	r.Update(at(0), process(at(0), 1, qp(17, 100)))
	r.Update(at(1), process(at(1), 1, qp(17, 100), qp(18, 50)))
	d := r.list[0].Devices[0]
	if len(d.QPs) != 2 || d.QPs[1].Now.Counts.SentMessages != 50 || d.Now.Counts.SentMessages != 50 {
		t.Fatalf("%+v", d)
	}
	eighteen := d.QPs[1]
	r.Update(at(2), process(at(2), 1, qp(17, 100), qp(18, 20))) // less than before
	if len(d.QPs) != 3 || d.QPs[1].ID == eighteen.ID || d.QPs[1].Now.Counts.SentMessages != 20 {
		t.Fatalf("%+v", d.QPs)
	}
	if gone := d.QPs[2]; gone != eighteen || gone.Gone != at(2) || gone.Now.Messages() != 0 ||
		len(gone.History(9)) != 1 || r.QP(gone.ID) != gone {
		t.Errorf("%+v", gone)
	}
	other := qp(18, 30)
	other.SendCQ = 9
	r.Update(at(3), process(at(3), 1, qp(17, 100), other)) // more, but of other completion queues
	if len(d.QPs) != 4 || d.QPs[1].Now.Counts.SentMessages != 30 {
		t.Errorf("%+v", d.QPs)
	}
	r.Update(at(4), process(at(4), 1))
	if len(d.QPs) != 3 { // 17 never moved anything
		t.Errorf("%+v", d.QPs)
	}
	r.Update(at(7), process(at(7), 1))
	if len(d.QPs) != 2 || r.QP(eighteen.ID) != nil {
		t.Errorf("%+v", d.QPs)
	}
	r.Update(at(20), process(at(20), 1))
	if len(d.QPs) != 0 || r.gone != 0 {
		t.Errorf("%+v, %d gone", d.QPs, r.gone)
	}
}

// A process with the id of an ended one is another process.
func TestRestart(t *testing.T) {
	r := NewTracker(10, 5*time.Second)
	r.Update(at(0), process(at(0), 1, qp(17, 100)))
	r.Update(at(1), process(at(1), 1, qp(17, 200)))
	r.Update(at(2), process(at(2), 2, qp(17, 300)))
	if len(r.list) != 2 || r.list[0].Now.Messages() != 0 || r.list[1].Gone != at(2) ||
		r.list[1].Devices[0].QPs[0].Gone != at(2) {
		t.Fatalf("%+v", r.list)
	}
	r.Update(at(3), process(at(3), 2, qp(17, 310)))
	if r.list[0].Now.Messages() != 10 {
		t.Errorf("%+v", r.list[0].Now)
	}
	r.Update(at(7), nil)
	if len(r.list) != 1 || r.list[0].instance != 2 || r.gone != 1 {
		t.Errorf("%+v", r.list)
	}
	r.Update(at(12), nil)
	if len(r.list) != 0 || r.gone != 0 || r.histories != 0 {
		t.Errorf("%+v: %d gone, %d histories", r.list, r.gone, r.histories)
	}
}

// A process that cannot be read for a while keeps its last state; its next interval is the longer.
func TestUnreadable(t *testing.T) {
	r := NewTracker(10, time.Minute)
	r.Update(at(0), process(at(0), 1, qp(17, 0)))
	why := errors.New("it is stopped")
	r.Update(at(1), []statsocket.Process{{PID: 7, Instance: 1, At: at(1), Err: why}})
	if q := only(t, r); q.Device.Process.Err != why {
		t.Errorf("%+v", q.Device.Process)
	}
	r.Update(at(4), process(at(4), 1, qp(17, 100)))
	if q := only(t, r); q.Now.PerSecond(q.Now.Messages()) != 25 || q.Device.Process.Err != nil {
		t.Errorf("%+v", q.Now)
	}
}

// A change of state is noted; a device's own counters have rates.
func TestStateAndCounters(t *testing.T) {
	r := NewTracker(10, time.Minute)
	first := process(at(0), 1, qp(17, 0))
	first[0].State.Devices[0].Metrics = []observe.Metric{{Name: "sent_pkts", Value: 50}, {Name: "timeouts", Value: 9},
		{Name: "pds", Gauge: true, Value: 1}}
	r.Update(at(0), first)
	failed := qp(17, 0)
	failed.State, failed.Failed = verbs.StateError, "it gave up"
	second := process(at(2), 1, failed)
	second[0].State.Devices[0].Metrics = []observe.Metric{{Name: "sent_pkts", Value: 150}, {Name: "timeouts", Value: 4},
		{Name: "dropped", Value: 6}, {Name: "pds", Gauge: true, Value: 5}}
	r.Update(at(2), second)
	q := only(t, r)
	if q.StateChanged != at(2) || q.Info.Failed != "it gave up" {
		t.Errorf("%+v", q)
	}
	if got := q.Device.Rates; len(got) != 3 || got["sent_pkts"] != 50 || got["timeouts"] != 2 || got["dropped"] != 3 {
		t.Errorf("%+v", got)
	}
}

// A program can create and destroy any number of objects: histories and gone objects are bounded.
func TestBounds(t *testing.T) {
	r := NewTracker(2, time.Hour)
	for i := range 4 {
		var many []driver.QPInfo
		for n := range maxHistories + 100 {
			many = append(many, qp(verbs.QPN(i*10_000+n+1), 100))
		}
		r.Update(at(float64(i)), process(at(float64(i)), 1, many...))
		if histories(r) != r.histories || r.histories > maxHistories || r.gone > maxGone ||
			len(r.list[0].Devices[0].QPs) > len(many)+maxGone {
			t.Fatalf("%d histories, %d counted; %d gone, %d queue pairs", histories(r), r.histories, r.gone,
				len(r.list[0].Devices[0].QPs))
		}
	}
	if r.gone != maxGone {
		t.Errorf("%d are gone and stay", r.gone)
	}
}

// histories counts the objects with a history.
func histories(r *Tracker) (n int) {
	count := func(a *Activity) {
		if len(a.Past.Last(1)) > 0 {
			n++
		}
	}
	for _, p := range r.list {
		count(&p.Activity)
		for _, d := range p.Devices {
			count(&d.Activity)
			for _, q := range d.QPs {
				count(&q.Activity)
			}
		}
	}
	return n
}

// With any order of objects that come, fail and go, each is there once, histories are counted, and in the end nothing
// is left.
func TestRandom(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		r := NewTracker(3, 4*time.Second)
		now := 0.0
		for range 60 {
			now += random.Float64() * 2
			var found []statsocket.Process
			for pid := range 3 {
				if random.IntN(4) == 0 {
					continue
				}
				p := statsocket.Process{PID: pid + 1, Instance: uint64(random.IntN(10)) / 9, At: at(now)}
				if random.IntN(8) == 0 {
					p.Err = errors.New("busy")
					found = append(found, p)
					continue
				}
				p.State = &observe.Process{}
				for range random.IntN(3) {
					d := observe.Device{Name: string(rune('a' + random.IntN(2)))}
					for range random.IntN(5) {
						d.QPs = append(d.QPs, qp(verbs.QPN(random.IntN(4)), uint64(now)+uint64(random.IntN(3))))
					}
					p.State.Devices = append(p.State.Devices, d)
				}
				found = append(found, p)
			}
			r.Update(at(now), found)
			ids := map[uint64]bool{}
			once := func(a *Activity) {
				if ids[a.ID] {
					t.Fatalf("seed %d: %d is there twice", seed, a.ID)
				}
				ids[a.ID] = true
			}
			for _, p := range r.list {
				once(&p.Activity)
				for _, d := range p.Devices {
					once(&d.Activity)
					for _, q := range d.QPs {
						once(&q.Activity)
						if r.QP(q.ID) != q || q.Device != d || d.Process != p {
							t.Fatalf("seed %d: %+v is not found", seed, q)
						}
						if q.Gone.IsZero() && !(p.Gone.IsZero() && d.Gone.IsZero()) {
							t.Fatalf("seed %d: the device is gone, its queue pair is not", seed)
						}
					}
				}
			}
			if histories(r) != r.histories {
				t.Fatalf("seed %d: %d histories, %d counted", seed, histories(r), r.histories)
			}
		}
		r.Update(at(now+1), nil)
		r.Update(at(now+10), nil)
		if len(r.list) != 0 || r.gone != 0 || r.histories != 0 {
			t.Errorf("seed %d: %d processes, %d gone, %d histories are left", seed, len(r.list), r.gone, r.histories)
		}
	}
}

// The sum of all processes is of the longest interval, and has the rate of each.
func TestSum(t *testing.T) {
	r := NewTracker(4, time.Minute)
	two := func(a, b float64, n uint64) []statsocket.Process {
		p := append(process(at(a), 1, qp(17, n)), process(at(b), 1, qp(17, 2*n))...)
		p[1].PID = 8
		return p
	}
	r.Update(at(0), two(0, 0, 100))
	if s := r.Sum(at(0)); s.Over != 0 || s.Bytes() != 0 {
		t.Errorf("%+v", s)
	}
	r.Update(at(2), two(1, 2, 200))
	s := r.Sum(at(2))
	if got := s.PerSecond(s.Messages()); s.Over != 2*time.Second || got != 100+100 ||
		s.PerSecond(s.Bytes()) != 200_000 || s.Waiting != 24 || s.RTT != 17*time.Microsecond {
		t.Errorf("%v messages a second, %+v", got, s)
	}
	if r.list[0].Now.Counts.SentMessages != 100 {
		t.Error("the sum changed a process")
	}
}
