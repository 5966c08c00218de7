// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// recordRefusal notes why a request was refused. The receiver of the NAK learns only its code (IBTA 9.7.5.2).
func (q *QP) recordRefusal(p *ib.Packet, v outcome) {
	at, n := requestMemory(p)
	need := requestAccess(p)
	f := verbs.Failure{Status: refusals[v].status, Reason: refusals[v].reason, PSN: p.PSN, HasPSN: true,
		Op: requestOp(p), Key: at.Key, Addr: at.Addr, Length: uint64(n)}
	if p.Opcode.Info().Class == ib.ClassFlush && p.FETH.Selectivity == ib.SelectRegion {
		f.Addr, f.Length, _ = q.Device.Memory.Describe(f.Key)
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
