// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// grhLen is the length of the header in front of a datagram's payload (IBTA 11.4.1.2).
const grhLen = 40

// receiveDatagram receives a UD packet (IBTA 9.8.3). Any host can send one: a datagram that does not fit
// the oldest receive is dropped and leaves it posted, and so do other errors of the sender.
func (q *QP) receiveDatagram(p *ib.Packet, from *Arrival) Reason {
	if int(from.From.Port) != q.Port().Num {
		return DropAddress
	}
	if p.DETH.QKey != q.Attr().QKey {
		return DropQKey
	}
	if len(p.Payload) > q.Port().MTU {
		return DropLength
	}
	if q.Device.Unready {
		return DropNoReceive
	}
	need := uint64(grhLen + len(p.Payload))
	room, ok := q.TakeReceiveOf(q.Recv, need)
	switch {
	case !ok:
		return DropNoReceive
	case room < need:
		if a := q.Device.Memory.Accesses(); a != nil {
			a.TooLong(q.Num, len(p.Payload), room)
		}
		return DropTooLong
	}
	m := &q.resp.msg
	if !q.Scatter(&m.scatter) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		q.enterError()
		return DropAccess
	}
	t := q.Device.Memory
	if from.Global {
		q.lane.grh = from.Header.AppendGRH(q.lane.grh[:0])
		m.scatter.Write(t, q.lane.grh) // if this fails, so does writing the payload
	} else {
		m.scatter.Seek(grhLen) // the bytes stay unchanged (IBTA 11.4.1.2)
	}
	if !m.scatter.Write(t, p.Payload) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		q.enterError()
		return DropAccess
	}
	q.CountRequest(len(p.Payload), true)
	wc := q.completeRecv(p, p.Opcode.Info(), verbs.WCRecv, grhLen+len(p.Payload))
	if from.Global {
		wc.Flags |= verbs.WithGRH
	}
	wc.SrcQPN, wc.SLID, wc.SL, wc.DLIDPathBits = p.DETH.SrcQP, from.From.LID, from.SL, from.PathBits
	return Taken
}
