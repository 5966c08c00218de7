// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Limits of an answer.
const (
	maxProcesses = 200
	maxDevices   = 200
	maxQPs       = 300
	spark        = 60 // samples of a device's small graph
)

// State is the state that the page shows.
type State struct {
	TimeMS    int64      `json:"time_ms"` // since 1970
	Host      string     `json:"host"`
	Version   string     `json:"version"`
	Processes []Process  `json:"processes"`
	LeftOut   LeftOut    `json:"left_out"`
	Total     Rates      `json:"total"`
	Objects   Objects    `json:"objects"`
	Scope     *ScopeInfo `json:"scope"`

	// Explained has the meanings of the errors in the answer, by their texts. Unknown errors are not in it.
	Explained map[string][]Explained `json:"explained"`
}

// Problem is a problem of a device.
type Problem struct {
	Text  string `json:"text"`
	Error string `json:"error"` // in Explained
}

// Objects is how many there are.
type Objects struct {
	Processes int `json:"processes"`
	Devices   int `json:"devices"`
	QPs       int `json:"qps"`
	MRs       int `json:"mrs"`
	CMIDs     int `json:"cm_ids"`
}

// LeftOut counts the objects that an answer leaves out.
type LeftOut struct {
	Processes int `json:"processes"`
	Devices   int `json:"devices"`
	QPs       int `json:"qps"` // that fit the filter
}

// Process is a process with open devices.
type Process struct {
	ID      uint64   `json:"id"`
	PID     int      `json:"pid"`
	UID     int      `json:"uid"`
	Command string   `json:"command"`
	Gone    bool     `json:"gone"`
	Error   string   `json:"error,omitempty"`
	Devices []Device `json:"devices"`
}

// Device is a device of a process.
type Device struct {
	ID    uint64    `json:"id"`
	Name  string    `json:"name"`
	Kind  string    `json:"kind"`
	Gone  bool      `json:"gone"`
	Ports []Port    `json:"ports"`
	Rates Rates     `json:"rates"`
	Spark []float64 `json:"spark_bytes_per_second"`
	QPs   []QP      `json:"qps"`
	Total int       `json:"qps_total"`

	// how often requested faults have struck it, by kind; empty: none have
	Injected string `json:"injected_faults"`

	Problems     []Problem `json:"problems"`
	MoreProblems int       `json:"problems_left_out"`
}

// Port is a port of a device.
type Port struct {
	Num       int    `json:"num"`
	State     string `json:"state"`
	Link      string `json:"link"`
	NetDev    string `json:"netdev"`
	MTU       int    `json:"mtu_bytes"`
	SpeedMbps int64  `json:"speed_mbps"`
}

// Rates are the events of a second, and the state at its end.
type Rates struct {
	SentMessages float64 `json:"sent_messages"`
	SentBytes    float64 `json:"sent_bytes"`
	RecvMessages float64 `json:"received_messages"`
	RecvBytes    float64 `json:"received_bytes"`
	Retransmits  float64 `json:"retransmitted_packets"`
	RTTNS        int64   `json:"rtt_ns"` // 0: not measured
}

// QP is a queue pair.
type QP struct {
	ID       uint64  `json:"id"`
	QPN      uint32  `json:"qpn"`
	Type     string  `json:"type"`
	State    string  `json:"state"`
	Peer     string  `json:"peer"` // empty: none
	PeerQPN  uint32  `json:"peer_qpn"`
	Gone     bool    `json:"gone"`
	Failed   string  `json:"failed,omitempty"`
	Rates    Rates   `json:"rates"`
	SQ       int     `json:"send_queue"`
	RQ       int     `json:"receive_queue"`
	InFlight int     `json:"in_flight_bytes"`
	Window   int     `json:"window_bytes"`
	CC       string  `json:"congestion_control"`
	RateBPS  int64   `json:"rate_bps"` // 0: nothing paces
	Alpha    float64 `json:"alpha"`
	TargetNS int64   `json:"target_delay_ns"` // the round trip that congestion control aims at; 0: it has none
	RTTNS    int64   `json:"rtt_ns"`
	RTTVarNS int64   `json:"rtt_variation_ns"`
	Counts   Counts  `json:"counts"` // since it was created
	Injected string  `json:"injected_faults"`
}

// Counts counts lost and retransmitted packets, by cause, and the packets and bytes carried.
type Counts struct {
	SentMessages  uint64 `json:"sent_messages"`
	SentBytes     uint64 `json:"sent_bytes"`
	RecvMessages  uint64 `json:"received_messages"`
	RecvBytes     uint64 `json:"received_bytes"`
	Retransmitted uint64 `json:"retransmitted_packets"`
	Timeouts      uint64 `json:"timeouts"`
	LateAcks      uint64 `json:"late_acks"`
	Sequence      uint64 `json:"sequence_errors"`
	LostResponses uint64 `json:"lost_responses"`
	RNRs          uint64 `json:"rnr_naks_received"`
	SentRNRs      uint64 `json:"rnr_naks_sent"`
	Duplicates    uint64 `json:"duplicates"`
	OutOfSequence uint64 `json:"out_of_sequence"`
	Marked        uint64 `json:"ecn_marked"`
	SentCNPs      uint64 `json:"cnps_sent"`
	RecvCNPs      uint64 `json:"cnps_received"`
}

// ScopeInfo names the object that is shown in detail: all, a process, a device or a queue pair.
type ScopeInfo struct {
	ID      uint64  `json:"id"` // 0: all
	Kind    string  `json:"kind"`
	Label   string  `json:"label"`
	Gone    bool    `json:"gone"`
	QP      *QP     `json:"qp,omitempty"`
	Series  Series  `json:"series"`
	Counts  Counts  `json:"counts"` // in the time of the series; of a queue pair, since it was created
	Latency Latency `json:"latency"`
}

// Series are graphs: a value for each sample, the oldest first. Rates are per second.
type Series struct {
	AgoMS     []int64   `json:"ago_ms"`  // when, before the answer
	OverMS    []int64   `json:"over_ms"` // how long the sample is: longer without a watcher
	EveryMS   int64     `json:"every_ms"`
	SentBytes []float64 `json:"sent_bytes"`
	RecvBytes []float64 `json:"received_bytes"`
	Messages  []float64 `json:"messages"`
	RTTNS     []int64   `json:"rtt_ns"`
	Again     []float64 `json:"retransmits"` // packets retransmitted
	Retries   []float64 `json:"retries"`     // why: timeouts, sequence errors, lost responses, RNR NAKs
	// requests of peers that were not carried out: duplicates, out of sequence, or without a receive
	Unexpected []float64 `json:"unexpected"`
	Late       []float64 `json:"late"` // acknowledgements that came late: nothing was lost
}

// state returns the page's state, read just now or a moment ago.
func (s *source) state(_ context.Context, scope uint64, filter string, span time.Duration) (*State, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if err := s.refresh(); err != nil {
		return nil, err
	}
	b := builder{State: &State{TimeMS: s.at.UnixMilli(), Processes: []Process{}, Explained: map[string][]Explained{}},
		now: s.at, span: span, scope: scope, filter: strings.ToLower(strings.TrimSpace(filter))}
	b.chosen = b.choose(s.tracker.Processes())
	for _, p := range s.tracker.Processes() {
		b.process(p)
	}
	b.Total = ratesOf(&s.now)
	if b.Scope == nil { // the object has been forgotten
		b.Scope = &ScopeInfo{Kind: "all", Label: "all processes", Series: b.series(&s.total),
			Counts: countsOver(s.total.Last(keep)), Latency: latencyOf(devicesOf(s.tracker.Processes()...))}
	}
	return b.State, nil
}

// builder makes a State.
type builder struct {
	*State
	now     time.Time
	span    time.Duration // of the graphs
	scope   uint64
	filter  string
	chosen  map[*live.QP]bool
	devices int
}

// choose returns the queue pairs that are shown: of the queue pairs that fit the filter, those in trouble and the
// busiest.
func (b *builder) choose(all []*live.Process) map[*live.QP]bool {
	var list []*live.QP
	for _, p := range all {
		for _, d := range p.Devices {
			for _, q := range d.QPs {
				if q.ID == b.scope || b.filter == "" || strings.Contains(strings.ToLower(rowText(q)), b.filter) {
					list = append(list, q)
				}
			}
		}
	}
	if len(list) > maxQPs {
		rank := func(q *live.QP) float64 {
			n := q.Now.PerSecond(q.Now.Bytes()) + 1000*q.Now.PerSecond(q.Now.Messages())
			if q.ID == b.scope {
				n += 1e30
			}
			if q.Info.State == verbs.StateError {
				n += 1e20
			}
			return n
		}
		slices.SortStableFunc(list, func(x, y *live.QP) int { return cmp.Compare(rank(y), rank(x)) })
		b.LeftOut.QPs = len(list) - maxQPs
		list = list[:maxQPs]
	}
	chosen := make(map[*live.QP]bool, len(list))
	for _, q := range list {
		chosen[q] = true
	}
	return chosen
}

// rowText is the text of a row that a filter searches.
func rowText(q *live.QP) string {
	return fmt.Sprintf("%s pid %d %s qp %d 0x%06x %v %v %s", q.Device.Process.Command, q.Device.Process.PID,
		q.Device.Info.Name, q.Info.QPN, uint32(q.Info.QPN),
		q.Info.Type, q.Info.State, peerOf(&q.Info))
}

// peerOf returns the address of a queue pair's peer.
func peerOf(q *driver.QPInfo) string {
	switch {
	case q.DestGID != (verbs.GID{}):
		return q.DestGID.Addr().Unmap().String()
	case q.DestLID != 0:
		return fmt.Sprintf("LID %d", q.DestLID)
	}
	return ""
}

func (b *builder) process(p *live.Process) {
	out := Process{ID: p.ID, PID: p.PID, UID: p.UID, Command: p.Command, Gone: !p.Gone.IsZero(), Devices: []Device{}}
	if p.Err != nil {
		out.Error = p.Err.Error()
		b.explain(out.Error)
	}
	if !out.Gone {
		b.Objects.Processes++
	}
	if b.detail(&p.Activity, "process", fmt.Sprintf("%s, process %d", p.Command, p.PID)) {
		b.Scope.Latency = latencyOf(p.Devices)
	}
	for _, d := range p.Devices {
		dev := b.device(d)
		if b.devices++; b.devices > maxDevices {
			b.LeftOut.Devices++
			continue
		}
		out.Devices = append(out.Devices, dev)
	}
	if len(b.Processes) == maxProcesses {
		b.LeftOut.Processes++
		return
	}
	b.Processes = append(b.Processes, out)
}

func (b *builder) device(d *live.Device) Device {
	out := Device{ID: d.ID, Name: d.Info.Name, Kind: d.Info.Kind, Injected: d.Info.InjectedText(0),
		Gone: !d.Gone.IsZero(), Rates: ratesOf(&d.Now), Spark: []float64{}, QPs: []QP{}, Ports: []Port{},
		Problems: []Problem{}}
	for i := range d.Info.Ports {
		p := &d.Info.Ports[i]
		out.Ports = append(out.Ports, Port{p.Num, p.State.String(), p.Link, p.NetDev, p.ActiveMTU, p.SpeedMbps})
	}
	for _, s := range d.History(spark) {
		out.Spark = append(out.Spark, s.PerSecond(s.Bytes()))
	}
	if !out.Gone {
		b.Objects.Devices++
		b.Objects.MRs += len(d.Info.MRs)
		b.Objects.CMIDs += len(d.Info.Conns)
	}
	if b.detail(&d.Activity, "device", d.Info.Name) {
		b.Scope.Latency = latencyOf([]*live.Device{d})
	}
	if !out.Gone {
		b.problems(&out, d)
	}
	for _, q := range d.QPs {
		if q.Gone.IsZero() {
			out.Total++
		}
		if !b.chosen[q] {
			continue
		}
		row := rowOf(q)
		b.explain(row.Failed)
		out.QPs = append(out.QPs, row)
		if b.detail(&q.Activity, "qp", fmt.Sprintf("queue pair %d of %s", q.Info.QPN, d.Info.Name)) {
			b.Scope.QP, b.Scope.Counts, b.Scope.Latency = &row, row.Counts, latencyOf([]*live.Device{d})
		}
	}
	b.Objects.QPs += out.Total
	return out
}

// detail fills in the scope if it is this object.
func (b *builder) detail(a *live.Activity, kind, label string) bool {
	if a.ID != b.scope {
		return false
	}
	h := a.History(keep)
	b.Scope = &ScopeInfo{ID: a.ID, Kind: kind, Label: label, Gone: !a.Gone.IsZero(), Series: b.series(&a.Past),
		Counts: countsOver(h)}
	return true
}

func rowOf(q *live.QP) QP {
	i := &q.Info
	return QP{ID: q.ID, QPN: uint32(i.QPN), Type: i.Type.String(), State: i.State.String(), Peer: peerOf(i),
		PeerQPN: uint32(i.DestQPN), Gone: !q.Gone.IsZero(),
		Failed: i.Failed, Rates: ratesOf(&q.Now), SQ: i.SendQueue, RQ: i.RecvQueue, InFlight: i.InFlight,
		Window: i.Window, CC: i.Congestion, RateBPS: i.Rate, Alpha: i.Alpha, TargetNS: int64(i.TargetDelay),
		RTTNS: int64(i.RTT), RTTVarNS: int64(i.RTTVar),
		Counts: countsOf(&i.QPCounts), Injected: q.Device.Info.InjectedText(i.QPN)}
}

func ratesOf(s *live.Sample) Rates {
	c := &s.Counts
	return Rates{s.PerSecond(c.SentMessages), s.PerSecond(c.SentBytes), s.PerSecond(c.RecvMessages),
		s.PerSecond(c.RecvBytes), s.PerSecond(c.Retransmitted), int64(s.RTT)}
}

func countsOf(c *metric.QPCounts) Counts {
	return Counts{SentMessages: c.SentMessages, SentBytes: c.SentBytes, RecvMessages: c.RecvMessages,
		RecvBytes: c.RecvBytes, Retransmitted: c.Retransmitted,
		Timeouts: c.Timeouts, LateAcks: c.LateAcks, Sequence: c.SequenceErrors, LostResponses: c.LostResponses,
		RNRs: c.RNRs, SentRNRs: c.SentRNRs, Duplicates: c.Duplicates,
		OutOfSequence: c.OutOfSequence, Marked: c.Marked, SentCNPs: c.SentCNPs, RecvCNPs: c.RecvCNPs}
}

// countsOver adds up samples.
func countsOver(list []live.Sample) (sum Counts) {
	for i := range list {
		c := countsOf(&list[i].Counts)
		sum.SentMessages += c.SentMessages
		sum.SentBytes += c.SentBytes
		sum.RecvMessages += c.RecvMessages
		sum.RecvBytes += c.RecvBytes
		sum.Retransmitted += c.Retransmitted
		sum.Timeouts += c.Timeouts
		sum.LateAcks += c.LateAcks
		sum.Sequence += c.Sequence
		sum.LostResponses += c.LostResponses
		sum.RNRs += c.RNRs
		sum.SentRNRs += c.SentRNRs
		sum.Duplicates += c.Duplicates
		sum.OutOfSequence += c.OutOfSequence
		sum.Marked += c.Marked
		sum.SentCNPs += c.SentCNPs
		sum.RecvCNPs += c.RecvCNPs
	}
	return sum
}

// series returns graphs of the span.
func (b *builder) series(h *live.History) Series {
	if b.span > keep*time.Second {
		out := seriesOf(h.Coarse(int(b.span/live.CoarseEvery)+1), b.now)
		out.EveryMS = live.CoarseEvery.Milliseconds()
		return out
	}
	out := seriesOf(h.Last(keep), b.now)
	out.EveryMS = time.Second.Milliseconds()
	return out
}

func seriesOf(list []live.Sample, now time.Time) Series {
	n := len(list)
	out := Series{AgoMS: make([]int64, n), OverMS: make([]int64, n), SentBytes: make([]float64, n),
		RecvBytes: make([]float64, n), Messages: make([]float64, n), RTTNS: make([]int64, n), Again: make([]float64, n),
		Retries: make([]float64, n), Unexpected: make([]float64, n), Late: make([]float64, n)}
	for i := range list {
		s := &list[i]
		c := &s.Counts
		out.AgoMS[i], out.OverMS[i] = now.Sub(s.At).Milliseconds(), s.Over.Milliseconds()
		out.SentBytes[i], out.RecvBytes[i] = s.PerSecond(c.SentBytes), s.PerSecond(c.RecvBytes)
		out.Messages[i], out.RTTNS[i] = s.PerSecond(s.Messages()), int64(s.RTT)
		out.Again[i] = s.PerSecond(c.Retransmitted)
		out.Retries[i] = s.PerSecond(c.Timeouts + c.SequenceErrors + c.LostResponses + c.RNRs)
		out.Unexpected[i] = s.PerSecond(c.Duplicates + c.OutOfSequence + c.SentRNRs)
		out.Late[i] = s.PerSecond(c.LateAcks)
	}
	return out
}
