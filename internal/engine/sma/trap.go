// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"math"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// maxTraps limits the traps that a port keeps until they are repressed.
const maxTraps = 16

// pendingTrap is a trap that is repeated until a manager represses it (section 13.4.9).
type pendingTrap struct {
	due       clock.Time // when it is sent next
	tid       uint64
	port      int  // the port that it is about
	repressed bool // repressed; kept until due to limit the rate of its kind
	notice    mad.Notice
}

// LinkChanged reports that the link of a port has come up or gone down: a switch sets PortStateChange and raises trap
// 128. It is not for changes that a manager has set (section 14.2.5.4).
func (a *Agent) LinkChanged(now clock.Time, port int) {
	if a.node.Tables == nil || port == 0 {
		return
	}
	a.node.Tables.Changed = true
	d := mad.LinkStateDetails{LID: a.node.Ports[0].Address.LID}
	n := mad.Notice{Type: mad.NoticeUrgent, Trap: mad.TrapLinkState}
	d.Encode(&n.Details)
	a.raise(now, 0, 0, &n)
}

// LocalChanged reports a change of a port that no manager has set: of its capability mask, or as changes says
// ([mad.ChangedDescription] and so on). It raises trap 144.
func (a *Agent) LocalChanged(now clock.Time, port int, changes uint16) {
	num := a.addressPortNum(port)
	p := &a.node.Ports[num]
	mask, mask2 := capabilities(p)
	d := mad.LocalChangesDetails{LID: p.Address.LID, Other: changes != 0, Changes: changes, CapMask: uint32(mask),
		CapMask2: mask2}
	n := mad.Notice{Type: mad.NoticeInfo, Trap: mad.TrapLocalChanges}
	d.Encode(&n.Details)
	a.raise(now, num, num, &n)
}

// ThresholdReached raises a trap about errors of a port: [mad.TrapLinkIntegrity], [mad.TrapBufferOverrun] or
// [mad.TrapFlowControl].
func (a *Agent) ThresholdReached(now clock.Time, port int, t mad.Trap) {
	num := a.addressPortNum(port)
	d := mad.PortDetails{LID: a.node.Ports[num].Address.LID, Port: uint8(port)}
	n := mad.Notice{Type: mad.NoticeUrgent, Trap: t}
	d.Encode(&n.Details)
	a.raise(now, num, port, &n)
}

// KeyViolated reports a packet with a wrong key at a port. It fills in d.Valid and the fields below it. At an adapter t
// is [mad.TrapPKey] or [mad.TrapQKey], and the violation is counted; at an external port of a switch it is
// [mad.TrapSwitchPKey].
func (a *Agent) KeyViolated(now clock.Time, port int, t mad.Trap, d mad.KeyDetails) {
	num := a.addressPortNum(port)
	p := &a.node.Ports[num]
	n := mad.Notice{Type: mad.NoticeSecurity, Trap: t}
	switch t {
	case mad.TrapSwitchPKey:
		d.Valid = mad.ValidLID1 | mad.ValidLID2 | mad.ValidPKey | mad.ValidSL | mad.ValidQP1 | mad.ValidQP2
		d.SwitchLID, d.Port = p.Address.LID, uint8(port)
	case mad.TrapPKey:
		count(&p.Partition.PViolations)
	case mad.TrapQKey:
		count(&p.Partition.QViolations)
	}
	d.Encode(t, &n.Details)
	a.raise(now, num, port, &n)
}

// count increments a saturating counter.
func count(c *uint16) {
	if *c < math.MaxUint16 {
		*c++
	}
}

// reportMKey raises trap 256 for a request with a wrong M_Key.
func (a *Agent) reportMKey(q *request, num int) {
	p := q.p
	d := mad.MKeyDetails{LID: a.node.Ports[num].Address.LID, Method: p.Method, Attribute: p.Attribute,
		Modifier: p.Modifier, MKey: p.MKey}
	if p.Directed() {
		_, hops := p.Hops()
		d.Directed, d.DrSLID, d.HopCount = true, p.DrSLID, hops
		copy(d.Return[:], p.Return[1:1+int(hops)])
		d.Truncated = int(hops) > len(d.Return)
	}
	n := mad.Notice{Type: mad.NoticeSecurity, Trap: mad.TrapMKey}
	d.Encode(&n.Details)
	a.raise(q.now, num, num, &n)
}

// raise queues a trap about port at, to be sent from port num, which has an address. Without a master subnet manager
// it does nothing: a new one reads everything itself.
func (a *Agent) raise(now clock.Time, num, at int, n *mad.Notice) {
	p, s := &a.node.Ports[num], &a.ports[num]
	if p.Address.SMLID == 0 || p.Address.LID == 0 {
		return
	}
	n.Generic, n.Producer, n.Issuer = true, uint32(a.node.Type), p.Address.LID
	a.tid++
	for i := range s.traps {
		if t := &s.traps[i]; t.notice.Trap == n.Trap && t.port == at {
			// The trap sent before is out of date. The new one has a transaction id of its own, so
			// that a repress of the old one does not silence it.
			t.tid, t.notice, t.repressed = a.tid, *n, false
			return
		}
	}
	if len(s.traps) == maxTraps {
		s.traps = slices.DeleteFunc(s.traps, func(t pendingTrap) bool { return t.repressed && t.due <= now })
	}
	if len(s.traps) < maxTraps {
		s.traps = append(s.traps, pendingTrap{due: now, tid: a.tid, port: at, notice: *n})
	}
}

// Restart drops all traps, after the node was powered off.
func (a *Agent) Restart() {
	for num := range a.ports {
		a.ports[num].traps = a.ports[num].traps[:0]
	}
}

// rateLimited reports whether a trap may occur with every packet. At most one such trap per SubnetTimeout is sent,
// repressed or not, so that the manager is not flooded (section 13.4.9).
func (t *pendingTrap) rateLimited() bool {
	switch t.notice.Trap {
	case mad.TrapLinkState, mad.TrapLocalChanges, mad.TrapSystemGUID:
		return false
	}
	return true
}

// repress handles a TrapRepress received at a port. It returns false if the transaction id is of no trap of the agent:
// managers send traps, too.
func (a *Agent) repress(at int, tid uint64) bool {
	s := &a.ports[a.addressPortNum(at)]
	for i := range s.traps {
		if s.traps[i].tid == tid && !s.traps[i].repressed {
			if s.traps[i].rateLimited() {
				s.traps[i].repressed, s.traps[i].tid = true, 0
				return true
			}
			s.traps = append(s.traps[:i], s.traps[i+1:]...)
			return true
		}
	}
	return false
}

// canSend reports whether a port can send traps to its manager.
func canSend(p *node.Port) bool {
	return p.Address.LID != 0 && p.Address.SMLID != 0 && p.Link.Logical >= node.Initialize
}

// Deadline returns when NextTrap is due; 0: there is nothing to send.
func (a *Agent) Deadline() clock.Time {
	var first clock.Time
	for num := range a.ports {
		if len(a.ports[num].traps) == 0 || !canSend(&a.node.Ports[num]) {
			continue
		}
		for i := range a.ports[num].traps {
			if a.ports[num].traps[i].repressed {
				continue
			}
			if due := max(a.ports[num].traps[i].due, 1); first == 0 || due < first {
				first = due
			}
		}
	}
	return first
}

// NextTrap fills the first [mad.Size] bytes of b with a trap to send by LID from a port (0 at a switch). Call it until
// there is none. A trap is repeated after each SubnetTimeout until a manager represses it.
func (a *Agent) NextTrap(now clock.Time, b []byte) (port int, dlid uint16, sl uint8, ok bool) {
	if len(b) < mad.Size {
		return 0, 0, 0, false
	}
	for num := range a.ports {
		p := &a.node.Ports[num]
		if len(a.ports[num].traps) == 0 || !canSend(p) {
			continue
		}
		for i := range a.ports[num].traps {
			t := &a.ports[num].traps[i]
			if t.repressed || t.due > now {
				continue
			}
			t.due = now + clock.Time(mad.Timeout(p.Address.SubnetTimeout).Duration())
			m := smp.New(mad.MethodTrap, mad.AttrNotice, 0, t.tid)
			t.notice.Append(m.Data[:0])
			m.Append(b[:0])
			return num, p.Address.SMLID, p.Address.SMSL, true
		}
	}
	return 0, 0, 0, false
}
