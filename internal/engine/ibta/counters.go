// SPDX-License-Identifier: Apache-2.0

package ibta

import "github.com/ramjet-rdma/ramjet/verbs/metric"

// Reason is the fate of a received packet.
type Reason uint8

const (
	Taken             Reason = iota
	DropState                // the queue pair is in a state that does not receive
	DropTransport            // opcode of another transport
	DropPKey                 // partition key mismatch
	DropQKey                 // queue key mismatch
	DropSequence             // UC: the beginning of the message is missing; RC: out of sequence
	DropDuplicate            // seen before
	DropNoReceive            // no receive was posted
	DropGhost                // response to nothing outstanding
	DropLength               // of an impossible length
	DropTooLong              // UC, UD: the message is longer than the receive, which stays posted
	DropInvalid              // a request that the specification does not allow here
	DropAccess               // key or access mismatch
	DropNoDestination        // no such queue pair
	DropAddress              // not from the connected peer's address
	DropMalformed            // not a packet of the transport
	DropICRC                 // invariant CRC mismatch
	DropForward              // for another process of the address, whose queue is full
	DropNoAgent              // a management datagram that no agent is registered for
	DropOverflow             // the port's receive buffer was full
	NumReasons
)

func (r Reason) String() string {
	return [...]string{"taken", "bad_state", "wrong_transport", "pkey_mismatch", "qkey_mismatch", "out_of_sequence",
		"duplicate", "no_receive_posted", "unexpected_response", "bad_length", "longer_than_receive", "invalid_request",
		"access_denied", "no_such_qp", "wrong_source_address", "malformed", "icrc_error", "not_forwarded", "no_agent",
		"receive_buffer_full"}[r]
}

// Counters count events on a device.
type Counters struct {
	SentPackets   uint64
	SentBytes     uint64 // of payload
	SendErrors    uint64 // batches that the system rejected
	RecvPackets   uint64 // with a right ICRC
	RecvBytes     uint64 // of their payload
	ICRCSolved    uint64 // of these, with an IPv4 identification that was not predicted
	Duplicates    uint64 // requests
	OutOfSequence uint64 // requests ahead of the expected PSN
	Early         uint64 // requests and responses that came out of order, and are kept
	AcksSent      uint64 // NAKs included
	AcksReceived  uint64
	NAKSent       uint64 // for sequence errors
	NAKReceived   uint64
	RNRSent       uint64
	RNRReceived   uint64
	RemoteErrors  uint64 // all other NAKs, sent or received
	Rewinds       uint64 // times a requester went back
	Timeouts      uint64
	LateAcks      uint64
	RetryExceeded uint64
	Marked        uint64 // packets that had met congestion
	CNPSent       uint64 // congestion notifications
	CNPReceived   uint64
	Forwarded     uint64 // to other processes of the address
	Dropped       [NumReasons]uint64
}

// Lost returns how many received packets were dropped that their senders may have to send again.
func (c *Counters) Lost() (n uint64) {
	for why, dropped := range c.Dropped {
		if r := Reason(why); r != DropDuplicate && r != DropGhost {
			n += dropped
		}
	}
	return n
}

// Metrics returns the counters, with Linux rxe's names where it has them.
func (c *Counters) Metrics() []metric.Metric {
	const packets, bytes, events = metric.UnitPackets, metric.UnitBytes, metric.UnitEvents
	list := []metric.Metric{
		{Name: "sent_pkts", Unit: packets, Help: "packets sent", Value: c.SentPackets},
		{Name: "sent_bytes", Unit: bytes, Help: "payload sent, retransmissions included", Value: c.SentBytes},
		{Name: "send_err", Unit: events, Help: "batches of packets that the system refused", Value: c.SendErrors},
		{Name: "rcvd_pkts", Unit: packets, Help: "packets received with a right ICRC", Value: c.RecvPackets},
		{Name: "rcvd_bytes", Unit: bytes, Help: "payload of packets received, of those too that came before",
			Value: c.RecvBytes},
		{Name: "rcvd_pkts_icrc_id_solved", Unit: packets, Help: "packets whose IPv4 identification was not predicted",
			Value: c.ICRCSolved},
		{Name: "duplicate_request", Unit: packets, Help: "requests that had been carried out before",
			Value: c.Duplicates},
		{Name: "out_of_seq_request", Unit: packets, Help: "requests ahead of the expected PSN", Value: c.OutOfSequence},
		{Name: "early_pkts", Unit: packets, Help: "packets kept until those before them came", Value: c.Early},
		{Name: "sent_acks", Unit: packets, Help: "acknowledgements sent, NAKs included", Value: c.AcksSent},
		{Name: "rcvd_acks", Unit: packets, Help: "acknowledgements received, NAKs included", Value: c.AcksReceived},
		{Name: "sent_seq_err", Unit: packets, Help: "NAKs sent for packets that are missing", Value: c.NAKSent},
		{Name: "rcvd_seq_err", Unit: packets, Help: "NAKs received for packets that the peer misses",
			Value: c.NAKReceived},
		{Name: "sent_rnr_err", Unit: packets, Help: "RNR NAKs sent: no receive was posted", Value: c.RNRSent},
		{Name: "rcvd_rnr_err", Unit: packets, Help: "RNR NAKs received: the peer had posted no receive",
			Value: c.RNRReceived},
		{Name: "remote_err", Unit: packets, Help: "other NAKs, sent or received", Value: c.RemoteErrors},
		{Name: "rewinds", Unit: events, Help: "times that a requester went back to send again", Value: c.Rewinds},
		{Name: "timeouts", Unit: events, Help: "times that no acknowledgement came in time, and a requester sent again or gave up", Value: c.Timeouts},
		{Name: "late_acks", Unit: events,
			Help: "acknowledgements that came after the timeout, though nothing had been lost", Value: c.LateAcks},
		{Name: "retry_exceeded_err", Unit: events, Help: "queue pairs that gave their peer up", Value: c.RetryExceeded},
		{Name: "rcvd_ecn_marked", Unit: packets, Help: "packets received that had met congestion", Value: c.Marked},
		{Name: "sent_cnp", Unit: packets, Help: "congestion notifications sent", Value: c.CNPSent},
		{Name: "rcvd_cnp", Unit: packets, Help: "congestion notifications received", Value: c.CNPReceived},
		{Name: "forwarded_pkts", Unit: packets, Help: "packets passed on to other processes of the address",
			Value: c.Forwarded},
	}
	for r := Taken + 1; r < NumReasons; r++ {
		list = append(list, metric.Metric{Name: "dropped", Unit: packets, Help: "packets received and dropped",
			Labels: []metric.Label{{Name: "reason", Value: r.String()}}, Value: c.Dropped[r]})
	}
	return list
}
