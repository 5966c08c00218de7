// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// terminate ends the stream with a Terminate that shows the faulty headers, if any; n is the
// payload of the segment. The queue pair goes to ERR. It always returns false, for its callers to
// return.
func (q *QP) terminate(cause iwarp.Cause, head, body []byte, n int) bool {
	return q.end(cause, head, body, n, verbs.EventQPRequestError)
}

// terminateAccess is terminate for a peer that requested an access that is not allowed.
func (q *QP) terminateAccess(cause iwarp.Cause, head, body []byte, n int) bool {
	return q.end(cause, head, body, n, verbs.EventQPAccessError)
}

func (q *QP) end(cause iwarp.Cause, head, body []byte, n int, event verbs.EventType) bool {
	if q.terminateMsg != nil || q.closing {
		return false
	}
	q.terminateMsg = terminateOf(cause, head, body, n)
	q.StreamFailed(verbs.Failure{Side: verbs.FailedStream, Status: statusOf(cause), Reason: verbs.ReasonMalformed,
		Detail: causeText(cause)})
	q.enterError()
	q.Raise(event)
	return false
}

func terminateOf(cause iwarp.Cause, head, body []byte, n int) *iwarp.Terminate {
	return &iwarp.Terminate{Cause: cause, HasLen: head != nil, SegmentLen: uint16(len(head) + n),
		DDP: bytes.Clone(head), RDMAP: bytes.Clone(body)}
}

// badResponse is terminate for a response that does not match its request: the oldest READ or atomic
// fails, if there is one.
func (q *QP) badResponse(cause iwarp.Cause, head []byte, n int) bool {
	if q.reads.Len() == 0 || q.reads.Front().rtr || q.terminateMsg != nil || q.closing {
		return q.terminate(cause, head, nil, n)
	}
	q.terminateMsg = terminateOf(cause, head, nil, n)
	q.failRead(verbs.StatusBadResponseError)
	return false
}

// terminateLocal ends the stream because of a local error.
func (q *QP) terminateLocal() {
	if q.up && q.terminateMsg == nil && !q.closing {
		q.terminateMsg = &iwarp.Terminate{Cause: iwarp.LocalCatastrophic}
	}
}

// fatal puts the queue pair into ERR when no work request is at fault.
func (q *QP) fatal() {
	q.enterError()
	q.Raise(verbs.EventQPFatal)
}

// sendTerminate appends the Terminate, the last message of the stream.
func (q *QP) sendTerminate(b *Batch) {
	var data [iwarp.MaxTerminate]byte
	h := iwarp.Header{Last: true, Opcode: iwarp.OpTerminate, Queue: iwarp.QueueTerminate, MSN: 1}
	q.message(b, h, q.terminateMsg.Append(data[:0]))
	q.terminateMsg = nil
	q.lane.Counters.SentTerminates++
}

// terminated handles the peer's Terminate: the READ or atomic that it names, or else the oldest work request that has
// begun, gets the status that corresponds to the cause. Everything else is flushed.
func (q *QP) terminated(h *iwarp.Header, head, body []byte) bool {
	var t iwarp.Terminate
	if h.MSN != 1 || h.MO != 0 || !t.Decode(body) {
		return q.terminate(iwarp.OperationCatastrophic, head, nil, len(body))
	}
	q.lane.Counters.RecvTerminates++
	if op := q.refusedRead(&t); op != nil {
		q.flushBefore(op)
	}
	if q.begun() {
		q.fail(statusOf(t.Cause))
		if f := q.Failure(); f.Reason == verbs.ReasonPeerRefused { // it is not shown yet
			f.Detail = causeText(t.Cause)
		}
		return false
	}
	q.StreamFailed(refusedByPeer(&t))
	q.enterError()
	q.Raise(verbs.EventQPFatal)
	return false
}

// refusedRead returns the READ or atomic request that a Terminate names by its number; nil: it names none.
func (q *QP) refusedRead(t *iwarp.Terminate) *readOp {
	var h iwarp.Header
	if !h.Decode(t.DDP) || h.Tagged || h.Queue != iwarp.QueueReadRequest {
		return nil
	}
	oldest := q.tx.msn[iwarp.QueueReadRequest] - uint32(q.reads.Len())
	n := h.MSN - oldest
	if n >= uint32(q.reads.Len()) || q.reads.At(int(n)).rtr {
		return nil
	}
	return q.reads.At(int(n))
}

// refusedByPeer returns the failure that a Terminate reports of a message that had completed here.
func refusedByPeer(t *iwarp.Terminate) verbs.Failure {
	f := verbs.Failure{Side: verbs.FailedStream, Status: statusOf(t.Cause), Detail: causeText(t.Cause)}
	if t.Cause != iwarp.LocalCatastrophic { // which is the peer's own error
		f.Reason = verbs.ReasonPeerRefused
	}
	var h iwarp.Header
	if !h.Decode(t.DDP) {
		return f
	}
	switch h.Opcode {
	case iwarp.OpWrite:
		f.Side, f.Op, f.Key, f.Addr = verbs.FailedCompleted, verbs.WCWrite, verbs.Key(h.STag), h.TO
		if t.HasLen {
			f.Length = uint64(max(int(t.SegmentLen)-len(t.DDP), 0))
		}
	case iwarp.OpSend, iwarp.OpSendInv, iwarp.OpSendSE, iwarp.OpSendSEInv:
		f.Side, f.Op = verbs.FailedCompleted, verbs.WCSend
	}
	return f
}

// causeText is a cause as people can look it up.
func causeText(c iwarp.Cause) string { return fmt.Sprintf("Terminate 0x%04x, %v", uint16(c), c) }

// statusOf returns the status of a work request that failed with a cause.
func statusOf(c iwarp.Cause) verbs.Status {
	switch c {
	case iwarp.UntaggedNoBuffer:
		return verbs.StatusRNRRetryExceeded
	case iwarp.OperationOpcode, iwarp.OperationVersion, iwarp.OperationCatastrophic, iwarp.UntaggedTooLong,
		iwarp.UntaggedMO, iwarp.UntaggedMSN, iwarp.UntaggedQueue:
		return verbs.StatusRemoteInvalidRequestError
	case iwarp.MPACRC, iwarp.MPAMarker, iwarp.MPAClosed:
		return verbs.StatusRetryExceeded
	}
	if l := c >> 8; l == 0x01 || l == 0x11 {
		return verbs.StatusRemoteAccessError
	}
	return verbs.StatusRemoteOperationError
}
