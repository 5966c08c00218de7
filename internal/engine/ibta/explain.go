// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// recordRefusal notes why a request was refused: it makes the checks again. The receiver of the NAK learns only its
// code (IBTA 9.7.5.2).
func (q *QP) recordRefusal(p *ib.Packet, v outcome) {
	_, _, status := nakOf(v)
	f := verbs.Failure{Status: status, PSN: p.PSN, HasPSN: true, Op: verbs.WCSend}
	need, atomic := verbs.Access(0), false
	switch info := p.Opcode.Info(); info.Class {
	case ib.ClassWrite:
		f.Op, need = verbs.WCWrite, verbs.RemoteWrite
		if info.First {
			f.Key, f.Addr, f.Length = p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen)
		}
	case ib.ClassReadRequest:
		f.Op, need = verbs.WCRead, verbs.RemoteRead
		f.Key, f.Addr, f.Length = p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen)
	case ib.ClassAtomicWrite:
		f.Op, need, atomic = verbs.WCAtomicWrite, verbs.RemoteWrite, true
		f.Key, f.Addr, f.Length = p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen)
	case ib.ClassAtomic:
		f.Op, need, atomic = verbs.WCFetchAdd, verbs.RemoteAtomic, true
		if p.Opcode.Operation() == ib.OpCompareSwap {
			f.Op = verbs.WCCompareSwap
		}
		f.Key, f.Addr, f.Length = p.AtomicETH.RKey, p.AtomicETH.VA, 8
	case ib.ClassFlush:
		f.Op = verbs.WCFlush
		f.Key, f.Addr, f.Length = p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen)
		if need = flushAccess(p); p.FETH.Selectivity == ib.SelectRegion {
			f.Addr, f.Length, _ = q.Device.Memory.Describe(f.Key)
		}
	}
	pd, ok := q.domain(p)
	switch {
	case q.Attr().Access&need != need:
		f.Reason = verbs.ReasonQPAccess
	case f.Length > uint64(q.Device.MaxMsgSize):
		f.Reason, f.Detail = verbs.ReasonTooLong, fmt.Sprintf("the device takes %d bytes", q.Device.MaxMsgSize)
	case v != remoteAccess && atomic && f.Addr%8 != 0:
		f.Reason = verbs.ReasonMisaligned
	case v == remoteAccess && need != 0 && ok && f.HasMemory():
		// RefuseRequest asks memory
	case v == remoteAccess:
		f.Reason = verbs.ReasonUnmapped
	case v == remoteOperational:
		f.Reason = verbs.ReasonUnknown
	case answered(p.Opcode.Info().Class) && !q.resp.replies.room(q.Attr().MaxDestRdAtomic):
		f.Reason, f.Detail = verbs.ReasonTooMany, fmt.Sprintf("max_dest_rd_atomic %d", q.Attr().MaxDestRdAtomic)
	default:
		f.Reason = verbs.ReasonMalformed
	}
	q.RefuseRequest(f, pd, need)
}
