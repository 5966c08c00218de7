// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// recordRefusal notes why a request was refused. The receiver of the NAK learns only its code (IBTA 9.7.5.2).
func (q *QP) recordRefusal(p *ib.Packet, v outcome) {
	f := verbs.Failure{Status: refusals[v].status, Reason: refusals[v].reason, PSN: p.PSN, HasPSN: true,
		Op: verbs.WCSend}
	var need verbs.Access
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
		f.Op, need = verbs.WCAtomicWrite, verbs.RemoteWrite
		f.Key, f.Addr, f.Length = p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen)
	case ib.ClassAtomic:
		f.Op, need = verbs.WCFetchAdd, verbs.RemoteAtomic
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
	switch v {
	case longerThanDevice:
		f.Detail = fmt.Sprintf("the device takes %d bytes", q.Device.MaxMsgSize)
	case tooMany:
		f.Detail = fmt.Sprintf("max_dest_rd_atomic %d", q.Attr().MaxDestRdAtomic)
	case remoteAccess:
		if !f.HasMemory() { // a later packet of a message, whose memory has ended
			f.Reason = verbs.ReasonUnmapped
		}
	}
	pd, _ := q.domain(p)
	q.RefuseRequest(f, pd, need)
}
