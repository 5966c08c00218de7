// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Watcher is an agent that traps errors at the ports of its node (section 14.2.5.1).
type Watcher interface {
	Notifier
	// PhysicalError reports a packet with a wrong VCRC.
	PhysicalError(now clock.Time, port int)
	// BufferOverrun reports a packet beyond the credits.
	BufferOverrun(now clock.Time, port int)
	// WatchdogExpired reports that no flow control packet came for too long.
	WatchdogExpired(now clock.Time, port int)
	// KeyViolated reports a packet with a wrong key: see [mad.TrapSwitchPKey].
	KeyViolated(now clock.Time, port int, t mad.Trap, d mad.KeyDetails)
}

// notifyAgent calls do with the agent of a port's node, if that is a Watcher.
func (n *Net) notifyAgent(q *Port, do func(Watcher)) {
	if w, ok := q.node.agent.(Watcher); ok {
		do(w)
		n.agentDue(q.node)
	}
}

// reportPKeyViolation reports that a switch's port has dropped a packet because of its P_Key.
func (n *Net) reportPKeyViolation(q *Port, p *Packet) {
	n.notifyAgent(q, func(w Watcher) {
		bth := p.bth()
		d := mad.KeyDetails{LID1: p.slid(), LID2: p.dlid(), Key: uint32(p.pkey(bth)), SL: p.sl(), QP2: p.destQP(bth)}
		if op := ib.Opcode(p.bytes[bth]); op.Transport() == ib.UDSendOnly.Transport() &&
			len(p.bytes) >= bth+ib.BTHLen+ib.DETHLen {
			d.QP1 = ib.QPN(binary.BigEndian.Uint32(p.bytes[bth+ib.BTHLen+4:]) & 0xff_ffff)
		}
		if bth > ib.LRHLen { // there is a GRH
			d.GID1, d.GID2 = ib.GID(p.bytes[ib.LRHLen+8:]), ib.GID(p.bytes[ib.LRHLen+24:])
		}
		w.KeyViolated(n.now, q.num, mad.TrapSwitchPKey, d)
	})
}

// WatchdogExpired reports to a port's agent that the other end of a remote cable was silent for too long.
func (n *Net) WatchdogExpired(now clock.Time, q *Port) {
	n.advance(now)
	n.notifyAgent(q, func(w Watcher) { w.WatchdogExpired(n.now, q.num) })
}
