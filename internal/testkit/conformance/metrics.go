// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

var metricTests = []test{
	{name: "Metrics/Described", run: testMetricsDescribed, needs: []Ability{Metrics}},
	{name: "Metrics/Traffic", run: testMetricsTraffic, needs: []Ability{Metrics}},
	{name: "Metrics/NoWaiting", run: testMetricsNoWaiting, needs: []Ability{Metrics}},
	{name: "Metrics/Latencies", run: testLatencies, needs: []Ability{Metrics}},
	{name: "Metrics/QP", run: testQPStats, needs: []Ability{Metrics}},
	{name: "Metrics/Objects", run: testObjectsListed, needs: []Ability{Metrics}},
	{name: "Metrics/Windows", run: testWindowsListed, needs: []Ability{Metrics}},
}

// testMetricsDescribed has every metric have a help text, and all of them different.
func testMetricsDescribed(t *T) {
	dev, _ := t.devices()
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	described, seen := map[string]metric.Metric{}, map[string]bool{}
	list := value(dev.Metrics())(t)
	for _, m := range list {
		if !name.MatchString(m.FlatName()) || m.Help == "" || m.Unit == "" || m.Kind > metric.Gauge {
			t.Errorf("%+v", m)
		}
		if seen[m.FlatName()] {
			t.Errorf("%s twice", m.FlatName())
		}
		seen[m.FlatName()] = true
		if d, ok := described[m.Name]; ok && (d.Kind != m.Kind || d.Unit != m.Unit || d.Help != m.Help ||
			len(d.Labels) != len(m.Labels)) {
			t.Errorf("%s is described as %+v and as %+v", m.Name, d, m)
		}
		described[m.Name] = m
	}
	again := value(dev.Metrics())(t)
	for i, m := range list {
		if again[i].FlatName() != m.FlatName() {
			t.Errorf("metric %d is %s, and was %s", i, again[i].FlatName(), m.FlatName())
		}
	}
}

// testMetricsTraffic counts messages, and the objects that there are.
func testMetricsTraffic(t *T) {
	const n = 40_000
	a, b := t.pair(setup{size: n})
	sent, qps := loopback.Counter(t, a.dev, "sent_bytes"), loopback.Counter(t, a.dev, "qps")
	read := loopback.Counter(t, a.dev, "rcvd_bytes")
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(0)})
	t.eventually(func() bool { return loopback.Counter(t, a.dev, "sent_bytes") >= sent+n }, "what is sent is counted")
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: b.at(0)})
	t.eventually(func() bool { return loopback.Counter(t, a.dev, "rcvd_bytes") >= read+n },
		"what is received is counted")
	t.ok(a.qp.Close())
	if got := loopback.Counter(t, a.dev, "qps"); got != qps-1 {
		t.Errorf("%d queue pairs, were %d before one was destroyed", got, qps)
	}
}

// testMetricsNoWaiting asks for metrics while the program keeps the device from its memory.
func testMetricsNoWaiting(t *T) {
	a, _ := t.pair(setup{})
	a.mr.Do(func([]byte) {
		done := make(chan error, 1)
		go func() {
			_, err := a.dev.Metrics()
			if err == nil {
				_, err = a.qp.Stats()
			}
			if err == nil {
				_, err = a.dev.QPStats()
			}
			done <- err
		}()
		if err := t.finish(done); err != nil {
			t.Error(err)
		}
	})
}

// testLatencies has one of 64 work requests measured, the first among them, and none longer than the test took.
func testLatencies(t *T) {
	a, b := t.pair(setup{})
	of := func(op verbs.WCOp) (h verbs.Latency) {
		for _, l := range value(a.dev.Latencies())(t) {
			if l.Op == op {
				h = l
			}
		}
		return h
	}
	before, start := of(verbs.WCWrite), time.Now()
	for range 130 {
		a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	}
	var h verbs.Latency
	t.eventually(func() bool { h = of(verbs.WCWrite); return h.Count >= before.Count+3 }, "work requests are measured")
	took := time.Since(start)
	sum := uint64(0)
	for i, n := range h.Buckets {
		sum += n
		if n > before.Buckets[i] && i > 0 && metric.Bound(i-1) > took {
			t.Errorf("%d work requests of more than %v, in a test of %v", n, metric.Bound(i-1), took)
		}
	}
	if h.Count != before.Count+3 || sum != h.Count || h.Sum < before.Sum || h.Sum-before.Sum > took {
		t.Errorf("%+v, was %+v, and it took %v", h, before, took)
	}
}

// testQPStats counts the messages and bytes of a queue pair, each way, and nothing else's.
func testQPStats(t *T) {
	const n = 10_000
	a, b := t.pair(setup{size: 4 * n})
	_, other := t.pair(setup{})
	began := [2]verbs.QPStats{value(a.qp.Stats())(t), value(b.qp.Stats())(t)}
	idle := value(other.qp.Stats())(t)

	b.recv(1, 0, n)
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, n)})
	b.received(verbs.StatusSuccess)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 2*n), Remote: b.at(0)})
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 3*n), Remote: b.at(0)})
	a.do(verbs.SendWR{Op: verbs.OpFetchAdd, SGL: a.sgl(0, 8), Remote: b.at(0), Add: 1})
	if t.late() { // READs may have overtaken the count, but not WRITEs
		t.eventually(func() bool { return value(b.qp.Stats())(t).RecvMessages >= began[1].RecvMessages+4 },
			"the peer counts requests")
	}

	const atomic = 8
	// sent messages and bytes, received messages and bytes
	want := [2][4]uint64{{4, 3 * n, 0, 3*n + atomic}, {0, 3 * n, 4, 3 * n}}
	for i, e := range []*end{a, b} {
		s := began[i]
		defer func() {
			if t.Failed() {
				t.Logf("side %d: %+v, want %v more than in %+v", i, s, want[i], began[i])
			}
		}()
		t.eventually(func() bool {
			s = value(e.qp.Stats())(t)
			if s.Duplicates > 0 { // a READ whose response was lost is answered again, and that counts
				s.SentBytes = min(s.SentBytes, began[i].SentBytes+want[i][1])
			}
			got := [4]uint64{s.SentMessages - began[i].SentMessages, s.SentBytes - began[i].SentBytes,
				s.RecvMessages - began[i].RecvMessages, s.RecvBytes - began[i].RecvBytes}
			return got == want[i] && s.SendQueue == 0 && s.InFlight == 0
		}, "a queue pair counts what goes over it")
		if s.QPN != e.qp.Num() || s.Type != verbs.RC || s.State != verbs.StateRTS ||
			s.DestGID == (verbs.GID{}) && s.DestLID == 0 || s.SentPackets == 0 || s.RecvPackets == 0 {
			t.Errorf("side %d: %+v", i, s)
		}
		all := value(e.dev.QPStats())(t)
		if !slices.ContainsFunc(all, func(s verbs.QPStats) bool {
			return s.QPN == e.qp.Num() && s.RecvMessages == want[i][2]+began[i].RecvMessages
		}) {
			t.Errorf("side %d is not among the queue pairs of its device: %+v", i, all)
		}
		for _, m := range s.Metrics() {
			if m.Help == "" || m.Unit == "" || len(m.Labels) == 0 ||
				m.Labels[0] != (metric.Label{Name: "qpn", Value: fmt.Sprint(uint32(e.qp.Num()))}) {
				t.Errorf("%+v", m)
			}
		}
	}
	if now := value(other.qp.Stats())(t); now.SentMessages != idle.SentMessages ||
		now.RecvMessages != idle.RecvMessages || now.RecvBytes != idle.RecvBytes {
		t.Errorf("a queue pair beside them counts %+v, was %+v", now.QPCounts, idle.QPCounts)
	}
	t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	t.eventually(func() bool { return value(b.qp.Stats())(t).State == verbs.StateError },
		"the state is that of the queue pair")
}

// pages puts all pages of a listing together.
func pages[I any](list func(page []I, at int) (n, next int)) (all []I) {
	page := make([]I, 3)
	for at := driver.FirstPage; at > 0; {
		var n int
		n, at = list(page, at)
		all = append(all, page[:n]...)
	}
	return all
}

// testObjectsListed has observers see the objects that there are, also while the program keeps the device
// from its memory.
func testObjectsListed(t *T) {
	a, b := t.pair(setup{})
	o, ok := driver.DeviceOf(a.dev).(driver.Observer)
	if !ok {
		t.Fatalf("%T lists no objects", driver.DeviceOf(a.dev))
	}
	buf := make([]byte, 4096)
	mr := value(a.pd.RegMR(buf, verbs.LocalWrite|verbs.RemoteRead))(t)
	cq := value(a.dev.CreateCQ(1234, nil))(t)
	ofQP := func(q driver.QPInfo) bool {
		return q.QPN == a.qp.Num() && q.Type == verbs.RC && q.State == verbs.StateRTS && q.DestQPN == b.qp.Num() &&
			q.PD != 0 && q.SendCQ != 0 && q.RecvCQ != 0
	}
	ofMR := func(m driver.MRInfo) bool {
		return m.Key == mr.RKey() && m.Addr == mr.Addr() && m.Len == 4096 &&
			m.Access == verbs.LocalWrite|verbs.RemoteRead && m.PD != 0
	}
	ofCQ := func(c driver.CQInfo) bool { return c.Capacity == 1234 && c.Waiting == 0 && !c.Overflow }
	done := make(chan error, 1)
	var found [3]bool
	mr.Do(func([]byte) {
		go func() {
			found = [3]bool{slices.ContainsFunc(pages(o.ObserveQPs), ofQP),
				slices.ContainsFunc(pages(o.ObserveMRs), ofMR), slices.ContainsFunc(pages(o.ObserveCQs), ofCQ)}
			done <- nil
		}()
		t.ok(t.finish(done))
	})
	if found != [3]bool{true, true, true} {
		t.Errorf("listed are %v of queue pair, region and completion queue: %+v", found, pages(o.ObserveQPs))
	}
	t.ok(mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite|verbs.RemoteWrite))
	if !slices.ContainsFunc(pages(o.ObserveMRs), func(m driver.MRInfo) bool {
		return m.Key == mr.RKey() && m.Access == verbs.LocalWrite|verbs.RemoteWrite
	}) {
		t.Errorf("the region's new access is not seen: %+v", pages(o.ObserveMRs))
	}
	key, qpn := mr.RKey(), a.qp.Num()
	t.ok(mr.Close())
	t.ok(cq.Close())
	t.ok(a.qp.Close())
	if slices.ContainsFunc(pages(o.ObserveMRs), func(m driver.MRInfo) bool { return m.Key == key }) ||
		slices.ContainsFunc(pages(o.ObserveCQs), ofCQ) ||
		slices.ContainsFunc(pages(o.ObserveQPs), func(q driver.QPInfo) bool { return q.QPN == qpn }) {
		t.Error("objects that were closed are listed")
	}
}

// testWindowsListed has observers see the regions of windows, shared receive queues with the queue pairs that
// receive from them, and address handles, as long as they are there.
func testWindowsListed(t *T) {
	a, b := t.pair(setup{})
	o := driver.DeviceOf(a.dev).(driver.Observer)
	mw, err := a.pd.AllocMW(verbs.MWType1)
	if errors.Is(err, verbs.ErrNotSupported) {
		t.Skip("the device has no memory windows")
	}
	t.ok(err)
	of := func() (w driver.MWInfo, there bool) {
		for _, m := range pages(o.ObserveMWs) {
			if m.Key>>8 == mw.RKey()>>8 {
				return m, true
			}
		}
		return w, false
	}
	if w, ok := of(); !ok || w.Region != 0 || w.Type != verbs.MWType1 || w.PD == 0 {
		t.Errorf("%+v", w)
	}
	mr := value(a.pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.MWBind))(t)
	t.ok(a.qp.BindMW(1, verbs.Signaled, verbs.MWBindInfo{MW: mw, MR: mr, Addr: mr.Addr() + 8, Length: 100,
		Access: verbs.RemoteRead}))
	a.sent(verbs.StatusSuccess)
	t.eventually(func() bool {
		w, _ := of()
		return w.Region == mr.RKey() && w.Addr == mr.Addr()+8 && w.Len == 100 && w.Access == verbs.RemoteRead &&
			w.Key == mw.RKey()
	}, "a bound window is seen as that")
	t.ok(mw.Close())
	if _, ok := of(); ok {
		t.Error("a window that was freed is listed")
	}

	srq := value(a.pd.CreateSRQ(verbs.SRQInit{MaxWR: 321, MaxSGE: 1}))(t)
	cq := value(a.dev.CreateCQ(10, nil))(t)
	qp := value(a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq}))(t)
	t.ok(srq.Modify(verbs.SRQAttr{Limit: 7}, verbs.SRQLimit))
	num := uint32(0)
	for _, s := range pages(o.ObserveSRQs) {
		if s.Capacity == 321 && s.Limit == 7 && s.PD != 0 {
			num = s.Num
		}
	}
	if num == 0 || !slices.ContainsFunc(pages(o.ObserveQPs),
		func(q driver.QPInfo) bool { return q.QPN == qp.Num() && q.SRQ == num }) {
		t.Errorf("shared receive queue %d of %+v", num, pages(o.ObserveSRQs))
	}
	t.ok(qp.Close())
	t.ok(srq.Close())
	if slices.ContainsFunc(pages(o.ObserveSRQs), func(s driver.SRQInfo) bool { return s.Num == num }) {
		t.Error("a shared receive queue that was destroyed is listed")
	}

	to := value(b.dev.GIDs(1))(t)[0].GID
	ah, err := a.pd.CreateAH(verbs.AHAttr{DGID: to, Port: 1})
	if err != nil {
		return // there are no datagrams, or no way by GIDs
	}
	seen := func() bool {
		return slices.ContainsFunc(pages(o.ObserveAHs),
			func(h driver.AHInfo) bool { return h.DGID == to && h.Port == 1 && h.PD != 0 })
	}
	if !seen() {
		t.Errorf("%+v", pages(o.ObserveAHs))
	}
	t.ok(ah.Close())
	if seen() {
		t.Error("an address handle that was destroyed is listed")
	}
}
