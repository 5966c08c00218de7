// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// DefaultConfig returns a configuration with the defaults of scenarios.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Message: 1 << 20,
		Host: HostConfig{Congestion: congestion.Default(), MTU: verbs.MTU1024, Window: 1 << 20, Burst: 1, Timeout: 14,
			RetryCount: 7, RNRTimer: 5, Receives: 16, First: CNPAckFirst},
		Switch: SwitchConfig{Buffer: 32 << 20, PFC: true, Alpha: 0.125, Credits: 64 << 10, XOn: 4096,
			Reroute: Millisecond, Watchdog: Watchdog{Restore: 200 * Millisecond},
			ECN: ECN{KMin: 100e3, KMax: 400e3, PMax: 0.2, Rate: 25e9}},
	}
}

// Slowdown returns how many times longer a flow took than alone; 0: it has not ended.
func (f *Flow) Slowdown() float64 {
	if f.End == 0 {
		return 0
	}
	return float64(f.End-f.Start) / float64(f.Ideal)
}

// Results are the results of a simulation so far.
type Results struct {
	Time      float64    `json:"time_ns"` // that has passed
	Flows     int        `json:"flows"`
	Ended     int        `json:"ended"`   // with success
	Failed    int        `json:"failed"`  // with another status
	Running   int        `json:"running"` // have begun, and not ended
	Sizes     []SizeRow  `json:"sizes"`
	Goodput   float64    `json:"goodput_bps"` // of all flows, over the time
	Fairness  float64    `json:"fairness"`    // Jain's index of the goodput of flows that have begun; 0: nothing arrived
	Transport Counts     `json:"transport"`
	Datagrams *Datagrams `json:"datagrams,omitempty"` // of UD flows that have ended; nil: there are none
	Links     []LinkRow  `json:"links"`
	Trace     []TraceRow `json:"trace,omitempty"`
	Packets   uint64     `json:"packets"` // over links
	Events    uint64     `json:"events"`
	Compared  int64      `json:"compared_bytes"` // of payload, which arrived as it was sent
}

// Datagrams count the fates of datagrams.
type Datagrams struct {
	Flows   int   `json:"flows"`
	Sent    int64 `json:"sent_bytes"`
	Arrived int64 `json:"delivered_bytes"`
}

// SizeRow is the flows of a range of sizes.
type SizeRow struct {
	UpTo     int64      `json:"largest_bytes"`
	Flows    int        `json:"flows"`
	FCT      Percentile `json:"fct_ns"`
	Slowdown Percentile `json:"slowdown"`
	Arrived  float64    `json:"arrived"` // share of their bytes: below 1 of datagrams
}

// Percentile has the median, and the 95th and 99th percentiles.
type Percentile struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// LinkRow is one direction of a link.
type LinkRow struct {
	From        string  `json:"from"`
	To          string  `json:"to"`
	Utilization float64 `json:"utilization"`
	MaxQueue    int     `json:"max_queue_bytes"`
	MeanQueue   float64 `json:"mean_queue_bytes"`
	Pauses      uint64  `json:"pauses"`
	Paused      float64 `json:"paused_ns"`
	Marked      uint64  `json:"marked"`
	Dropped     uint64  `json:"dropped"`
	Trimmed     uint64  `json:"trimmed"`
	Lost        uint64  `json:"lost"`    // to failures
	Storms      uint64  `json:"storms"`  // pause storms that the watchdog ended
	Corrupt     uint64  `json:"corrupt"` // that arrived over it
	Packets     uint64  `json:"packets"`
}

// TraceRow is a [Sample].
type TraceRow struct {
	Time     float64   `json:"time_ns"`
	Queue    int       `json:"queue_bytes"`
	Rates    []float64 `json:"rates_bps"`
	Controls []float64 `json:"control_bps"`
}

// Results returns the results so far.
func (s *Sim) Results() *Results {
	r := &Results{Time: 1e9 * s.now.Seconds(), Flows: len(s.flows), Running: len(s.running), Packets: s.Packets,
		Events: s.Events, Compared: s.Compared, Transport: s.Counts}
	begun := make([]bool, len(s.flows))
	for run := range s.running {
		r.Transport.add(run.requester)
		r.Transport.add(run.other)
		run.flow.Delivered, begun[run.flow.index] = run.delivered(), true
	}
	var rates []float64
	for i := range s.flows {
		f := &s.flows[i]
		end := f.End
		if begun[i] {
			end = s.now
		}
		if end > f.Start {
			rates = append(rates, float64(f.Delivered)/(end-f.Start).Seconds())
		}
		r.Goodput += float64(8 * f.Delivered)
		switch {
		case f.Status != verbs.StatusSuccess:
			r.Failed++
		case f.End > 0:
			r.Ended++
			if f.UD {
				r.addDatagrams(f)
			}
		}
	}
	if r.Time > 0 {
		r.Goodput /= s.now.Seconds()
	}
	r.Fairness = jain(rates)
	r.Sizes = s.BySize([]int64{1e3, 10e3, 100e3, 1e6, 10e6, math.MaxInt64})
	for _, h := range s.hosts {
		r.Links = append(r.Links, s.linkRow(h.port))
	}
	for _, w := range s.switches {
		for _, p := range w.ports {
			r.Links = append(r.Links, s.linkRow(p))
		}
	}
	for _, m := range s.Samples {
		r.Trace = append(r.Trace, TraceRow{1e9 * m.At.Seconds(), m.Queue, m.Rates, m.Controls})
	}
	return r
}

// Progress is how much of the simulation is over, from 0 to 1: by the time, or by the bytes that have arrived.
func (s *Sim) Progress() float64 {
	var total, done int64
	for i := range s.flows {
		f := &s.flows[i]
		weight := max(f.Size, 1)
		total += weight
		if f.End > 0 {
			done += weight
		}
	}
	for run := range s.running {
		done += run.delivered()
	}
	share := float64(done) / float64(max(total, 1))
	if s.config.Until > 0 {
		share = max(share, float64(s.now)/float64(s.config.Until))
	}
	return share
}

func (r *Results) addDatagrams(f *Flow) {
	if r.Datagrams == nil {
		r.Datagrams = &Datagrams{}
	}
	r.Datagrams.Flows++
	r.Datagrams.Sent += f.Size
	r.Datagrams.Arrived += f.Delivered
}

// jain is the index of fairness of Jain, Chiu and Hawe: 1 if all are equal.
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}

// finished returns the flows that have ended with success, by size.
func (s *Sim) finished() (done []*Flow) {
	for i := range s.flows {
		if f := &s.flows[i]; f.End > 0 && f.Status == verbs.StatusSuccess {
			done = append(done, f)
		}
	}
	slices.SortStableFunc(done, func(a, b *Flow) int { return cmp.Compare(a.Size, b.Size) })
	return done
}

// BySize returns rows for flows up to sizes, which ascend. Rows without flows are left out.
func (s *Sim) BySize(sizes []int64) (rows []SizeRow) {
	done := s.finished()
	for _, upTo := range sizes {
		n := 0
		for n < len(done) && done[n].Size <= upTo {
			n++
		}
		if n > 0 {
			rows = append(rows, sizeRow(min(upTo, done[n-1].Size), done[:n]))
		}
		done = done[n:]
	}
	return rows
}

// Quantiles returns up to n rows of equally many flows.
func (s *Sim) Quantiles(n int) (rows []SizeRow) {
	done := s.finished()
	for i := range n {
		part := done[i*len(done)/n : (i+1)*len(done)/n]
		if len(part) > 0 {
			rows = append(rows, sizeRow(part[len(part)-1].Size, part))
		}
	}
	return rows
}

func sizeRow(upTo int64, flows []*Flow) SizeRow {
	var fct, slow []float64
	var size, delivered int64
	for _, f := range flows {
		fct, slow = append(fct, 1e9*(f.End-f.Start).Seconds()), append(slow, f.Slowdown())
		size, delivered = size+f.Size, delivered+f.Delivered
	}
	arrived := 1.0
	if size > 0 {
		arrived = float64(delivered) / float64(size)
	}
	return SizeRow{upTo, len(flows), percentiles(fct), percentiles(slow), arrived}
}

// percentiles returns the smallest values that so many of a hundred do not exceed.
func percentiles(x []float64) Percentile {
	slices.Sort(x)
	at := func(share float64) float64 { return x[max(int(math.Ceil(share*float64(len(x))))-1, 0)] }
	return Percentile{at(0.5), at(0.95), at(0.99)}
}

// node returns the name of a port's node, for people.
func (p *port) node() string {
	if h, ok := p.owner.(*host); ok {
		return fmt.Sprint("host ", h.num)
	}
	return p.owner.(*fabricSwitch).name
}

func (s *Sim) linkRow(p *port) LinkRow {
	p.queueChanges(s.now)
	st := p.Stats
	if p.paused {
		st.Paused += s.now - p.changed
	}
	r := LinkRow{From: p.node(), To: p.peer.node(), MaxQueue: st.MaxQueue, Pauses: st.Pauses,
		Paused: 1e9 * st.Paused.Seconds(), Marked: st.Marked,
		Dropped: st.Dropped, Trimmed: st.Trimmed, Lost: st.Lost, Storms: st.Storms, Corrupt: p.peer.Stats.Corrupt,
		Packets: st.Packets}
	if s.now > 0 {
		r.Utilization = min(float64(st.Busy)/float64(s.now), 1)
		r.MeanQueue = st.area / float64(s.now)
	}
	return r
}
