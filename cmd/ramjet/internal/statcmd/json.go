// SPDX-License-Identifier: Apache-2.0

package statcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// JSON is the output of `ramjet stat --json`. Units are in names; numbers without one are counts.
type JSON struct {
	Processes []statProcess `json:"processes"`
	Kernel    []kernelLink  `json:"kernel_links"`
}

type statProcess struct {
	PID     int            `json:"pid"`
	UID     int            `json:"uid"`
	Command string         `json:"comm,omitempty"`
	Problem string         `json:"problem,omitempty"` // why it cannot be read
	Devices []statDeviceJS `json:"devices"`
}

type statDeviceJS struct {
	Name      string           `json:"ifname"`
	Kind      string           `json:"kind"`
	Version   string           `json:"version"`
	NodeGUID  string           `json:"node_guid"`
	Ports     []statPort       `json:"ports"`
	Counters  map[string]int64 `json:"counters"`
	Latencies []statLatency    `json:"completion_latencies"`
	QPs       []statQP         `json:"qps"`
	CQs       []statCQ         `json:"cqs"`
	MRs       []statMR         `json:"mrs"`
	MWs       []statMW         `json:"mws"`
	SRQs      []statSRQ        `json:"srqs"`
	AHs       []statAH         `json:"ahs"`
	CMIDs     []statCMID       `json:"cm_ids"`
	Partial   bool             `json:"cm_ids_partial,omitempty"`

	Injected map[string]uint64 `json:"injected_faults,omitempty"` // by kind
}

type statPort struct {
	Port      int    `json:"port"`
	State     string `json:"state"`
	Physical  string `json:"physical_state,omitempty"`
	LinkLayer string `json:"link_layer"`
	NetDev    string `json:"netdev,omitempty"`
	GID       string `json:"gid"`
	LID       uint16 `json:"lid,omitempty"`
	MTU       int    `json:"active_mtu_bytes"`
	Speed     int64  `json:"speed_mbps,omitempty"`
}

type statQP struct {
	LQPN  uint32 `json:"lqpn"`
	Type  string `json:"type"`
	State string `json:"state"`
	RQPN  uint32 `json:"rqpn,omitempty"`
	Peer  string `json:"peer,omitempty"`
	PD    uint32 `json:"pdn,omitempty"`
	SCQ   uint32 `json:"send_cqn,omitempty"`
	RCQ   uint32 `json:"recv_cqn,omitempty"`
	SRQ   uint32 `json:"srqn,omitempty"`
	Why   string `json:"failure,omitempty"`

	Injected map[string]uint64 `json:"injected_faults,omitempty"` // by kind

	SendQueue int   `json:"send_queue"`
	RecvQueue int   `json:"recv_queue"`
	InFlight  int   `json:"in_flight_bytes"`
	Window    int   `json:"window_bytes,omitempty"`
	RTT       int64 `json:"rtt_ns,omitempty"`
	RTTVar    int64 `json:"rtt_var_ns,omitempty"`
	Retry     uint8 `json:"retry_count,omitempty"`
	RNRRetry  uint8 `json:"rnr_retry,omitempty"`

	Congestion string  `json:"congestion_control,omitempty"`
	Rate       int64   `json:"rate_bps,omitempty"`
	Alpha      float64 `json:"alpha,omitempty"`
	Target     int64   `json:"target_delay_ns,omitempty"`
	Marked     uint64  `json:"ecn_marked"`
	SentCNPs   uint64  `json:"cnps_sent"`
	RecvCNPs   uint64  `json:"cnps_received"`

	Sent      statMoved   `json:"sent"`
	Received  statMoved   `json:"received"`
	Retries   statRetries `json:"retransmissions"`
	Responder statReplies `json:"responder"`
}

type statMoved struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Packets  uint64 `json:"packets"`
}

type statRetries struct {
	Packets        uint64 `json:"packets"`
	Timeouts       uint64 `json:"timeouts"`
	LateAcks       uint64 `json:"late_acks"`
	SequenceErrors uint64 `json:"sequence_errors"`
	LostResponses  uint64 `json:"lost_responses"`
	RNRs           uint64 `json:"rnr_naks_received"`
}

type statReplies struct {
	Duplicates    uint64 `json:"duplicates"`
	OutOfSequence uint64 `json:"out_of_sequence"`
	RNRs          uint64 `json:"rnr_naks_sent"`
}

type statCQ struct {
	CQN      uint32 `json:"cqn"`
	CQE      int    `json:"cqe"`
	Waiting  int    `json:"waiting"`
	Armed    bool   `json:"armed"`
	Overflow bool   `json:"overflow"`
}

type statMR struct {
	Key    string   `json:"key"`
	PD     uint32   `json:"pdn"`
	Addr   string   `json:"addr"`
	Bytes  uint64   `json:"length_bytes"`
	Access []string `json:"access"`
}

type statMW struct {
	Key    string   `json:"key"`
	Type   string   `json:"type"`
	PD     uint32   `json:"pdn"`
	Region string   `json:"mr_key,omitempty"` // empty: it is not bound
	Addr   string   `json:"addr,omitempty"`
	Bytes  uint64   `json:"length_bytes"`
	Access []string `json:"access"`
}

type statSRQ struct {
	SRQN     uint32 `json:"srqn"`
	PD       uint32 `json:"pdn"`
	XRC      uint32 `json:"xrc_srqn,omitempty"`
	Capacity int    `json:"max_wr"`
	Limit    int    `json:"srq_limit"`
}

type statAH struct {
	PD   uint32 `json:"pdn"`
	Port int    `json:"port"`
	GID  string `json:"dgid,omitempty"`
	LID  uint16 `json:"dlid,omitempty"`
	SL   uint8  `json:"sl"`
}

// statLatency is how long work requests of an operation took, from posting to completion: samples of them, about one in
// 64.
type statLatency struct {
	Operation string              `json:"operation"`
	Samples   uint64              `json:"samples"`
	Sum       time.Duration       `json:"sum_ns"`
	Buckets   []statLatencyBucket `json:"buckets"` // buckets with samples
}

// statLatencyBucket has the samples that took longer than the bound of the bucket before, and no longer than its own.
type statLatencyBucket struct {
	UpTo    *time.Duration `json:"up_to_ns"` // null: without limit
	Samples uint64         `json:"samples"`
}

func newStatLatency(h *verbs.Latency) statLatency {
	js := statLatency{Operation: h.Op.String(), Samples: h.Count, Sum: h.Sum, Buckets: []statLatencyBucket{}}
	for i, n := range h.Buckets {
		if n == 0 {
			continue
		}
		b := statLatencyBucket{Samples: n}
		if i < metric.Buckets-1 {
			bound := metric.Bound(i)
			b.UpTo = &bound
		}
		js.Buckets = append(js.Buckets, b)
	}
	return js
}

type statCMID struct {
	LQPN   uint32 `json:"lqpn,omitempty"`
	Type   string `json:"qp_type,omitempty"`
	PS     string `json:"ps"`
	State  string `json:"state"`
	Listen bool   `json:"listening"`
	Local  string `json:"src_addr,omitempty"`
	Peer   string `json:"dst_addr,omitempty"`
	Why    string `json:"failure,omitempty"`
}

// writeJSON writes everything; with --watch in one line.
func (s *statCommand) writeJSON(out io.Writer, found []statsocket.Process, kernel []kernelLink) error {
	all := JSON{Processes: []statProcess{}, Kernel: append([]kernelLink{}, kernel...)}
	for i := range found {
		p := &found[i]
		js := statProcess{PID: p.PID, UID: p.UID, Command: p.Command, Devices: []statDeviceJS{}}
		if p.Err != nil {
			js.Problem = p.Err.Error()
		} else {
			for i := range p.State.Devices {
				js.Devices = append(js.Devices, newStatDeviceJS(&p.State.Devices[i]))
			}
		}
		all.Processes = append(all.Processes, js)
	}
	names := DeviceNames(found)
	if s.every != 0 {
		return cli.WriteJSONLine(out, all, names...)
	}
	return cli.WriteJSON(out, all, names...)
}

// DeviceNames returns the names of all devices, once each.
func DeviceNames(found []statsocket.Process) (names []string) {
	for i := range found {
		if found[i].Err != nil {
			continue
		}
		for j := range found[i].State.Devices {
			names = append(names, found[i].State.Devices[j].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newStatDeviceJS(d *observe.Device) statDeviceJS {
	js := statDeviceJS{Name: d.Name, Kind: d.Kind, Version: d.Firmware, NodeGUID: cli.GUIDText(d.NodeGUID),
		Partial: d.NoConns, Injected: injectedInto(d, 0),
		Ports: []statPort{}, Counters: map[string]int64{}, QPs: []statQP{}, CQs: []statCQ{}, MRs: []statMR{},
		MWs: []statMW{}, SRQs: []statSRQ{}, AHs: []statAH{}, CMIDs: []statCMID{}, Latencies: []statLatency{}}
	for _, p := range d.Ports {
		js.Ports = append(js.Ports, statPort{p.Num, PortState(p.State), physicalState(p.Physical), p.Link, p.NetDev,
			cli.GIDText(p.GID), p.LID, p.ActiveMTU, p.SpeedMbps})
	}
	for _, m := range d.Metrics {
		if m.Value != 0 {
			js.Counters[m.Name] = int64(m.Value)
		}
	}
	for i := range d.Latencies {
		js.Latencies = append(js.Latencies, newStatLatency(&d.Latencies[i]))
	}
	for i := range d.QPs {
		q := &d.QPs[i]
		one := statQP{LQPN: uint32(q.QPN), Type: q.Type.String(), State: q.State.String(), RQPN: uint32(q.DestQPN),
			PD: q.PD, SCQ: q.SendCQ, RCQ: q.RecvCQ, SRQ: q.SRQ, Why: q.Failed, Injected: injectedInto(d, q.QPN),
			SendQueue: q.SendQueue, RecvQueue: q.RecvQueue, InFlight: q.InFlight, Window: q.Window, RTT: int64(q.RTT),
			RTTVar: int64(q.RTTVar), Retry: q.RetryCount, RNRRetry: q.RNRRetry,
			Congestion: q.Congestion, Rate: q.Rate, Alpha: q.Alpha, Target: int64(q.TargetDelay), Marked: q.Marked,
			SentCNPs: q.SentCNPs, RecvCNPs: q.RecvCNPs, Sent: statMoved{q.SentMessages, q.SentBytes, q.SentPackets},
			Received:  statMoved{q.RecvMessages, q.RecvBytes, q.RecvPackets},
			Retries:   statRetries{q.Retransmitted, q.Timeouts, q.LateAcks, q.SequenceErrors, q.LostResponses, q.RNRs},
			Responder: statReplies{q.Duplicates, q.OutOfSequence, q.SentRNRs}}
		if p := Peer(q); p != "-" {
			one.Peer = p
		}
		js.QPs = append(js.QPs, one)
	}
	for _, c := range d.CQs {
		js.CQs = append(js.CQs, statCQ{c.Num, c.Capacity, c.Waiting, c.Armed, c.Overflow})
	}
	for _, m := range d.MRs {
		js.MRs = append(js.MRs, statMR{keyText(m.Key), m.PD, fmt.Sprintf("0x%x", m.Addr), m.Len, accessNames(m.Access)})
	}
	for _, m := range d.MWs {
		one := statMW{Key: keyText(m.Key), Type: m.Type.String(), PD: m.PD, Bytes: m.Len, Access: accessNames(m.Access)}
		if m.Region != 0 {
			one.Region, one.Addr = keyText(m.Region), fmt.Sprintf("0x%x", m.Addr)
		}
		js.MWs = append(js.MWs, one)
	}
	for _, s := range d.SRQs {
		js.SRQs = append(js.SRQs, statSRQ{s.Num, s.PD, s.XRC, s.Capacity, s.Limit})
	}
	for _, a := range d.AHs {
		one := statAH{PD: a.PD, Port: a.Port, LID: a.DLID, SL: a.SL}
		if a.DGID != (verbs.GID{}) {
			one.GID = cli.GIDText(a.DGID)
		}
		js.AHs = append(js.AHs, one)
	}
	for _, c := range d.Conns {
		one := statCMID{LQPN: uint32(c.QPN), PS: c.PortSpace, State: c.State, Listen: c.Listening, Why: c.Failed}
		if c.QPType != 0 {
			one.Type = c.QPType.String()
		}
		if c.Local.IsValid() {
			one.Local = c.Local.String()
		}
		if c.Peer.IsValid() {
			one.Peer = c.Peer.String()
		}
		js.CMIDs = append(js.CMIDs, one)
	}
	return js
}

// injectedInto returns how often faults have struck a queue pair, or with 0 the device, by kind; nil: none have.
func injectedInto(d *observe.Device, n verbs.QPN) (all map[string]uint64) {
	for _, c := range d.InjectedInto(n) {
		if all == nil {
			all = map[string]uint64{}
		}
		all[c.Kind] = c.Struck
	}
	return all
}

func keyText(k verbs.Key) string { return fmt.Sprintf("0x%08x", uint32(k)) }

// accessNames returns the rights in a's text, in a list.
func accessNames(a verbs.Access) []string {
	if a == 0 {
		return []string{}
	}
	return strings.Split(a.String(), "|")
}
