// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// QPStats is the state of a queue pair with its measurements.
type QPStats struct {
	QPN     QPN
	Type    QPType
	State   QPState
	DestQPN QPN    // the peer's; 0: it is not connected, or the device does not know
	DestGID GID    // the peer's address; zero: it is not connected by one
	DestLID uint16 // the peer's LID, on fabrics that have them

	metric.QPCounts

	SendQueue int // work requests that have not completed
	RecvQueue int // receives that are posted, of a shared queue too
	// bytes that are not acknowledged, headers included; over iWARP, that the stream has not taken
	InFlight int
	Window   int           // bytes that may be in flight to the peer's host; 0: the transport below decides
	RTT      time.Duration // smoothed round trip; 0: not measured
	RTTVar   time.Duration // its mean deviation

	// Congestion is the name of the queue pair's congestion control; empty: the transport below has one.
	Congestion  string
	Rate        int64         // bits per second that it allows; 0: it does not pace
	Alpha       float64       // DCQCN's estimate of congestion, from 0 to 1
	TargetDelay time.Duration // the round trip that a control by delay aims at

	// The retries after a timeout, and after an RNR NAK, until the queue pair fails (as in QPAttr). Both are 0 where
	// nothing is retransmitted: over iWARP, and for datagrams.
	RetryCount uint8
	RNRRetry   uint8 // 7: any number of times
}

// Metrics returns the statistics as metrics with labels that name the queue pair.
func (s *QPStats) Metrics() []metric.Metric {
	labels := []metric.Label{{Name: "qpn", Value: strconv.FormatUint(uint64(s.QPN), 10)},
		{Name: "type", Value: s.Type.String()}}
	counter := func(name string, u metric.Unit, help string, v uint64) metric.Metric {
		return metric.Metric{Name: name, Unit: u, Help: help, Labels: labels, Value: v}
	}
	gauge := func(name string, u metric.Unit, help string, v int64) metric.Metric {
		return metric.Metric{Name: name, Kind: metric.Gauge, Unit: u, Help: help, Labels: labels,
			Value: uint64(max(v, 0))}
	}
	return []metric.Metric{
		counter("qp_sent_msgs", metric.UnitMessages, "send work requests that completed with success", s.SentMessages),
		counter("qp_sent_bytes", metric.UnitBytes, "payload of messages and READ responses sent", s.SentBytes),
		counter("qp_sent_pkts", metric.UnitPackets, "packets sent, retransmissions included", s.SentPackets),
		counter("qp_rcvd_msgs", metric.UnitMessages, "requests of peers that were carried out", s.RecvMessages),
		counter("qp_rcvd_bytes", metric.UnitBytes, "payload of messages and READ responses received", s.RecvBytes),
		counter("qp_rcvd_pkts", metric.UnitPackets, "packets received", s.RecvPackets),
		counter("qp_retransmitted_pkts", metric.UnitPackets, "packets sent again", s.Retransmitted),
		counter("qp_timeouts", metric.UnitEvents, "retransmissions because no acknowledgement came in time",
			s.Timeouts),
		counter("qp_late_acks", metric.UnitEvents,
			"acknowledgements that came after the timeout, though nothing had been lost", s.LateAcks),
		counter("qp_rcvd_seq_err", metric.UnitEvents, "retransmissions because the peer missed a packet",
			s.SequenceErrors),
		counter("qp_lost_responses", metric.UnitEvents, "retransmissions because a response was missing",
			s.LostResponses),
		counter("qp_rcvd_rnr_err", metric.UnitEvents, "retransmissions because the peer had posted no receive", s.RNRs),
		counter("qp_duplicate_request", metric.UnitPackets, "requests that had been carried out before", s.Duplicates),
		counter("qp_out_of_seq_request", metric.UnitPackets, "requests ahead of the expected PSN", s.OutOfSequence),
		counter("qp_sent_rnr_err", metric.UnitPackets, "RNR NAKs sent: no receive was posted", s.SentRNRs),
		counter("qp_rcvd_ecn_marked", metric.UnitPackets, "packets received that had met congestion", s.Marked),
		counter("qp_sent_cnp", metric.UnitPackets, "congestion notifications sent", s.SentCNPs),
		counter("qp_rcvd_cnp", metric.UnitPackets, "congestion notifications received", s.RecvCNPs),
		gauge("qp_send_queue", metric.UnitMessages, "send work requests that have not completed", int64(s.SendQueue)),
		gauge("qp_recv_queue", metric.UnitMessages, "receives that are posted", int64(s.RecvQueue)),
		gauge("qp_in_flight", metric.UnitBytes, "bytes that are not acknowledged", int64(s.InFlight)),
		gauge("qp_window", metric.UnitBytes, "bytes that may be in flight to the peer's host", int64(s.Window)),
		gauge("qp_rtt", metric.UnitNanos, "smoothed round trip", int64(s.RTT)),
		gauge("qp_rtt_var", metric.UnitNanos, "mean deviation of the round trip", int64(s.RTTVar)),
		gauge("qp_rate", metric.UnitBytes, "bytes per second that congestion control allows; 0: it does not pace",
			s.Rate/8),
		gauge("qp_alpha", metric.UnitEvents, "DCQCN's estimate of congestion, in parts of 1000", int64(1000*s.Alpha)),
		gauge("qp_target_delay", metric.UnitNanos, "round trip that congestion control aims at", int64(s.TargetDelay)),
	}
}
