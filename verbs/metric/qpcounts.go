// SPDX-License-Identifier: Apache-2.0

package metric

// QPCounts counts the events on a queue pair since it was created. Counts that its transport does not have are zero:
// over iWARP, TCP retransmits lost data.
type QPCounts struct {
	SentMessages uint64 // send work requests that completed with success
	SentBytes    uint64 // payload of them, and of READ responses that were sent
	SentPackets  uint64 // FPDUs over iWARP; retransmissions included
	RecvMessages uint64 // requests of peers that were carried out; a long READ may be several
	RecvBytes    uint64 // payload of them, and of READ responses that came
	RecvPackets  uint64 // FPDUs over iWARP; dropped packets included

	// Reasons for which the requester went back, and how many packets it retransmitted.
	Timeouts       uint64 // no acknowledgement came in time
	SequenceErrors uint64 // NAKs: the peer missed a packet
	LostResponses  uint64 // a response of the peer was missing
	RNRs           uint64 // RNR NAKs: the peer had posted no receive
	Retransmitted  uint64

	// LateAcks counts acknowledgements that came after their timeout, though nothing had been lost: the peer, or
	// this process, had no processor. Timeouts that led to none of them, nor to a NAK, were losses.
	LateAcks uint64

	// Of the responder.
	Duplicates    uint64 // requests that had been carried out before
	OutOfSequence uint64 // requests ahead of the expected one
	// RNR NAKs sent: no receive was posted; over shared memory, the NAKs that a waiting message would have got
	SentRNRs uint64

	// Of congestion that switches mark (ECN).
	Marked   uint64 // packets received that were marked
	SentCNPs uint64 // notifications sent because of that
	RecvCNPs uint64 // notifications received
}
