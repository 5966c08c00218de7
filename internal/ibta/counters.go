// SPDX-License-Identifier: Apache-2.0

package ibta

// Reason says what became of a received packet.
type Reason uint8

const (
	Taken             Reason = iota
	DropState                // the queue pair is in no state to receive
	DropTransport            // opcode of another transport
	DropPKey                 // partition key mismatch
	DropQKey                 // queue key mismatch
	DropSequence             // UC: packet of a message whose beginning is missing; RC: out of sequence, already reported
	DropDuplicate            // seen before
	DropNoReceive            // UC, UD: no receive was posted
	DropGhost                // response to nothing that is outstanding
	DropLength               // longer than the receive, or not what its opcode needs
	DropInvalid              // a request that the specification does not allow here
	DropAccess               // UC: key or access mismatch
	DropNoDestination        // no such queue pair
	DropAddress              // not from the address that the queue pair is connected to
	DropMalformed            // no packet of the transport
	DropICRC                 // invariant CRC mismatch
	NumReasons
)

func (r Reason) String() string {
	return [...]string{"taken", "bad_state", "wrong_transport", "pkey_mismatch", "qkey_mismatch", "out_of_sequence", "duplicate",
		"no_receive_posted", "unexpected_response", "bad_length", "invalid_request", "access_denied", "no_such_qp",
		"wrong_source_address", "malformed", "icrc_error"}[r]
}

// Counters count what happened on a device; their names follow the kernel's rxe.
type Counters struct {
	SentPackets, SentBytes uint64
	RecvPackets            uint64
	Dropped                [NumReasons]uint64 // by reason
	ICRCSolved             uint64             // packets whose IPv4 identification was not predicted: 16 bits of the ICRC verified
	Duplicates             uint64             // duplicate requests
	OutOfSequence          uint64             // requests ahead of the expected PSN
	RNRSent, RNRReceived   uint64
	NAKSent, NAKReceived   uint64 // sequence errors
	Rewinds                uint64 // times a requester went back
	Timeouts               uint64
	AcksSent, AcksReceived uint64
	RetryExceeded          uint64
	SendErrors             uint64 // batches that the system refused
	RemoteErrors           uint64 // NAKs other than sequence errors and RNR, sent or received
}
