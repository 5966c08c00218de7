// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// reasons translates why memory was refused.
var reasons = [...]verbs.Reason{memory.NoKey: verbs.ReasonNoKey, memory.NotOwner: verbs.ReasonOtherOwner,
	memory.Outside: verbs.ReasonOutside, memory.NoRight: verbs.ReasonNoRight}

// statusReasons has the reason for a status that needs no numbers.
var statusReasons = map[verbs.Status]verbs.Reason{
	verbs.StatusLocalLengthError:          verbs.ReasonTooLong,
	verbs.StatusBadResponseError:          verbs.ReasonMalformed,
	verbs.StatusRemoteInvalidRequestError: verbs.ReasonPeerRefused,
	verbs.StatusRemoteAccessError:         verbs.ReasonPeerRefused,
	verbs.StatusRemoteOperationError:      verbs.ReasonPeerRefused,
	verbs.StatusRetryExceeded:             verbs.ReasonNoAnswer,
	verbs.StatusRNRRetryExceeded:          verbs.ReasonNotReady,
}

// Failure returns the first failure since RESET or SQE; nil: there was none.
func (p *Pair) Failure() *verbs.Failure { return p.failure }

// recordFailure keeps the first failure, and has it reported. It returns its reason, whether it is the first or not.
func (p *Pair) recordFailure(f *verbs.Failure) verbs.Reason {
	if p.failure == nil {
		f.QPN = p.Num
		p.failure = f
		p.out.Failures = append(p.out.Failures, f)
	}
	return f.Reason
}

// sendFailed notes that a send work request fails, and returns why.
func (p *Pair) sendFailed(w *SendWQE, s verbs.Status) verbs.Reason {
	f := &verbs.Failure{Side: verbs.FailedSend, Status: s, Reason: statusReasons[s], Op: sendOps[w.Op].wc, ID: w.ID}
	switch {
	case s == verbs.StatusLocalLengthError && sendOps[w.Op].fixed != 0:
		f.Reason, f.Length = verbs.ReasonNotEight, w.given()
	case s == verbs.StatusLocalLengthError:
		f.Length = w.given()
	case s == verbs.StatusLocalProtectionError:
		p.refusedEntry(f, p.PD, w.SGL, w.Receives())
	case w.Remote != (verbs.Remote{}):
		f.Key, f.Addr, f.Length = w.Remote.Key, w.Remote.Addr, uint64(w.Length)
	}
	return p.recordFailure(f)
}

// receiveFailed notes that the taken receive fails, and returns why.
func (p *Pair) receiveFailed(s verbs.Status) verbs.Reason {
	f := &verbs.Failure{Side: verbs.FailedRecv, Status: s, Reason: statusReasons[s], Op: verbs.WCRecv, ID: p.taken.ID}
	switch s {
	case verbs.StatusLocalProtectionError:
		p.refusedEntry(f, p.taken.from.PD, p.taken.SGL, true)
	case verbs.StatusLocalLengthError:
		for i := range p.taken.SGL {
			f.Length += uint64(p.taken.SGL[i].Length)
		}
	case verbs.StatusRemoteInvalidRequestError, verbs.StatusRemoteAccessError, verbs.StatusRemoteOperationError:
		f.Reason = verbs.ReasonUnknown // this side refused
	}
	return p.recordFailure(f)
}

// refusedEntry finds the first entry of a list that memory refuses. If there is none, the memory that it
// names is not mapped any more.
func (p *Pair) refusedEntry(f *verbs.Failure, pd memory.PD, sgl []verbs.SGE, write bool) {
	f.Reason = verbs.ReasonUnmapped
	for i := range sgl {
		e := &sgl[i]
		if e.Length == 0 {
			continue
		}
		f.Key, f.Addr, f.Length = e.LKey, e.Addr, uint64(e.Length)
		if why, refused := p.dev.Memory.RefusedLocal(pd, e, write); refused {
			f.Reason, f.Need = reasons[why], verbs.LocalWrite
			f.MemAddr, f.MemLen, f.Allows = p.dev.Memory.Describe(e.LKey)
			return
		}
		if f.Op == verbs.WCRead && !p.ReadsInto(e) {
			f.MemAddr, f.MemLen, f.Allows = p.dev.Memory.Describe(e.LKey)
			f.Reason, f.Need = verbs.ReasonNoRight, p.dev.SinkAccess&^f.Allows
			return
		}
	}
}

// StreamFailed notes that the peer refused an operation that had completed, or that the connection ended: f.Side says
// which. It does nothing for a queue pair whose failure is known.
func (p *Pair) StreamFailed(f verbs.Failure) { p.recordFailure(&f) }

// PeerClosed records that the peer closed the connection, which is not reported: connections should end so.
func (p *Pair) PeerClosed() {
	if p.failure == nil {
		p.failure = &verbs.Failure{QPN: p.Num, Side: verbs.FailedStream, Status: verbs.StatusWRFlushError,
			Reason: verbs.ReasonPeerClosed}
	}
}

// RefuseRequest notes that a request of the peer is refused. f has the peer's request; need is the access that it
// needs, and pd the domain in which its key was looked for. If memory refused it, f has no reason, which is added here.
func (p *Pair) RefuseRequest(f verbs.Failure, pd memory.PD, need verbs.Access) {
	f.Side, f.Need = verbs.FailedRequest, need
	switch {
	case f.Reason == verbs.ReasonQPAccess:
		f.Allows = p.attr.Access
	case f.Reason == verbs.ReasonUnknown && f.Status == verbs.StatusRemoteAccessError && f.HasMemory():
		f.Reason = reasons[p.dev.Memory.Refused(pd, p.Num, f.Key, f.Addr, f.Length, need)]
		f.MemAddr, f.MemLen, f.Allows = p.dev.Memory.Describe(f.Key)
		if f.Reason == verbs.ReasonNoRight && f.Allows&need == need {
			f.Reason = verbs.ReasonUnmapped // nothing refuses it now
		}
	}
	p.recordFailure(&f)
}
