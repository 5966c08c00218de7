// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// grhLen is what a datagram leaves in front of its payload (IBTA 11.4.1.2).
const grhLen = 40

// receiveDatagram takes a UD packet (IBTA 9.8.3). Anybody can send one: what does not fit the
// oldest receive is dropped and leaves it posted, as other errors of the sender do.
func (q *QP) receiveDatagram(p *ib.Packet, from Arrival) Reason {
	if p.DETH.QKey != q.attr.QKey {
		return DropQKey
	}
	if len(p.Payload) > q.Device.MTU {
		return DropLength
	}
	if rq := q.Recv; rq.Len() > 0 && uint64(grhLen+len(p.Payload)) > rq.NextLen() {
		return DropTooLong
	}
	if _, ok := q.takeRecv(p); !ok {
		return DropNoReceive
	}
	m := &q.resp.msg
	if !m.scatter.Set(q.Device.Memory, m.queue.PD, m.recv.SGL, true) {
		q.completeRecvError(verbs.LocalProtectionError)
		q.enterError()
		return DropAccess
	}
	t := q.Device.Memory
	q.Device.grh = from.AppendGRH(q.Device.grh[:0])
	if !m.scatter.Write(t, q.Device.grh) || !m.scatter.Write(t, p.Payload) {
		q.completeRecvError(verbs.LocalProtectionError)
		q.enterError()
		return DropAccess
	}
	wc := q.completeRecv(p, p.Opcode.Info(), verbs.WCRecv, grhLen+len(p.Payload))
	wc.Flags |= verbs.WithGRH
	wc.SrcQPN = p.DETH.SrcQP
	return Taken
}
