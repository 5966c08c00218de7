// SPDX-License-Identifier: Apache-2.0

package ibta

import "github.com/ramjet-rdma/ramjet/verbs"

// Reason says what became of a received packet.
type Reason uint8

const (
	Taken             Reason = iota
	DropState                // the queue pair is in no state to receive
	DropTransport            // opcode of another transport
	DropPKey                 // partition key mismatch
	DropQKey                 // queue key mismatch
	DropSequence             // UC: packet of a message whose beginning is missing; RC: out of sequence
	DropDuplicate            // seen before
	DropNoReceive            // no receive was posted
	DropGhost                // response to nothing that is outstanding
	DropLength               // of a length that no such packet has
	DropTooLong              // UC, UD: the message is longer than the receive, which stays posted
	DropInvalid              // a request that the specification does not allow here
	DropAccess               // key or access mismatch
	DropNoDestination        // no such queue pair
	DropAddress              // not from the address that the queue pair is connected to
	DropMalformed            // no packet of the transport
	DropICRC                 // invariant CRC mismatch
	DropForward              // for another process of the address, which takes no more
	NumReasons
)

func (r Reason) String() string {
	return [...]string{"taken", "bad_state", "wrong_transport", "pkey_mismatch", "qkey_mismatch", "out_of_sequence", "duplicate",
		"no_receive_posted", "unexpected_response", "bad_length", "longer_than_receive", "invalid_request", "access_denied", "no_such_qp",
		"wrong_source_address", "malformed", "icrc_error", "not_forwarded"}[r]
}

// Counters count what happened on a device.
type Counters struct {
	SentPackets   uint64
	SentBytes     uint64 // of payload
	SendErrors    uint64 // batches that the system refused
	RecvPackets   uint64 // with a right ICRC
	ICRCSolved    uint64 // of these, those whose IPv4 identification was not predicted
	Duplicates    uint64 // requests
	OutOfSequence uint64 // requests ahead of the expected PSN
	Early         uint64 // requests and responses that were kept until what belongs before them came
	AcksSent      uint64 // NAKs included
	AcksReceived  uint64
	NAKSent       uint64 // sequence errors
	NAKReceived   uint64
	RNRSent       uint64
	RNRReceived   uint64
	RemoteErrors  uint64 // all other NAKs, sent or received
	Rewinds       uint64 // times a requester went back
	Timeouts      uint64
	RetryExceeded uint64
	Forwarded     uint64 // to other processes of the address
	Dropped       [NumReasons]uint64
}

// List returns the counters by name; names that Linux rxe has too are its own.
func (c *Counters) List() []verbs.Counter {
	list := []verbs.Counter{
		{Name: "sent_pkts", Value: c.SentPackets},
		{Name: "sent_bytes", Value: c.SentBytes},
		{Name: "send_err", Value: c.SendErrors},
		{Name: "rcvd_pkts", Value: c.RecvPackets},
		{Name: "rcvd_pkts_icrc_id_solved", Value: c.ICRCSolved},
		{Name: "duplicate_request", Value: c.Duplicates},
		{Name: "out_of_seq_request", Value: c.OutOfSequence},
		{Name: "early_pkts", Value: c.Early},
		{Name: "sent_acks", Value: c.AcksSent},
		{Name: "rcvd_acks", Value: c.AcksReceived},
		{Name: "sent_seq_err", Value: c.NAKSent},
		{Name: "rcvd_seq_err", Value: c.NAKReceived},
		{Name: "sent_rnr_err", Value: c.RNRSent},
		{Name: "rcvd_rnr_err", Value: c.RNRReceived},
		{Name: "remote_err", Value: c.RemoteErrors},
		{Name: "rewinds", Value: c.Rewinds},
		{Name: "timeouts", Value: c.Timeouts},
		{Name: "retry_exceeded_err", Value: c.RetryExceeded},
		{Name: "forwarded_pkts", Value: c.Forwarded},
	}
	for r := Taken + 1; r < NumReasons; r++ {
		list = append(list, verbs.Counter{Name: "dropped_" + r.String(), Value: c.Dropped[r]})
	}
	return list
}
