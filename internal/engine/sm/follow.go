// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// otherManager is another subnet manager that a sweep has found.
type otherManager struct {
	port *port
	info smp.SMInfo
}

// standby is the state of a manager that follows a master, or hands over to one.
type standby struct {
	guid   uint64     // of the master that is polled
	path   []uint8    // to it
	pollAt clock.Time // when it is polled next; 0: a poll is in flight, or there is no master
	misses int        // polls in a row without a master's answer

	handover uint64     // GUID of the manager that is asked to take over
	refused  uint64     // GUID of a manager that has refused to
	until    clock.Time // until when it is not asked again
}

// Bounds of waiting for other managers.
const (
	maxMisses  = 4                // polls that a master may leave unanswered (section 14.4.1)
	refusedFor = clock.Time(60e9) // how long a manager that has refused to take over is not asked again
)

// smInfo returns the manager's own SMInfo.
func (m *Manager) smInfo() smp.SMInfo {
	return smp.SMInfo{GUID: m.config.PortGUID, SMKey: m.config.SMKey, ActCount: m.actCount, Priority: m.config.Priority,
		State: m.role}
}

// outranks reports whether another manager should be master instead of this one: it has a higher priority, or the
// same and a lower GUID (section 14.4.1).
func (m *Manager) outranks(o *smp.SMInfo) bool {
	if o.Priority != m.config.Priority {
		return o.Priority > m.config.Priority
	}
	return o.GUID < m.config.PortGUID
}

// trusts reports whether another manager is active and has the same SM_Key.
func (m *Manager) trusts(o *smp.SMInfo) bool {
	return o.State != smp.SMNotActive && o.SMKey == m.config.SMKey && o.GUID != m.config.PortGUID
}

// elect decides at the end of discovery whether this manager configures the subnet. If not, it has become a
// standby manager, or is handing over to another.
func (m *Manager) elect(now clock.Time) bool {
	var best *otherManager
	for _, o := range m.next.managers {
		if !m.trusts(&o.info) || o.port.guid != o.info.GUID || m.next.byPortGUID[o.port.guid] != o.port {
			continue
		}
		if m.role == smp.SMDiscovering && o.info.State == smp.SMMaster {
			best = o // if this one outranks it, it will hand over
			break
		}
		if m.outranks(&o.info) && (best == nil || higher(&o.info, &best.info)) {
			best = o
		}
	}
	if m.role != smp.SMMaster {
		if best != nil {
			m.become(now, smp.SMStandby, best.info.GUID, best.port.path)
			return false
		}
		m.become(now, smp.SMMaster, 0, nil)
		return true
	}
	if best == nil || best.info.State == smp.SMDiscovering ||
		best.info.GUID == m.follow.refused && now < m.follow.until {
		return true
	}
	e := nodeEvent(HandingOver, best.port.dev, best.port.num)
	e.GUID = best.info.GUID
	m.emit(e)
	m.follow.handover, m.follow.path = best.info.GUID, best.port.path
	m.phase = light // until the response arrives
	r := request{purpose: handingOver, method: mad.MethodSet, attribute: smp.AttrSMInfo, modifier: smp.SMHandover,
		path: best.port.path}
	o := m.smInfo()
	o.Append(r.data[:0])
	m.enqueue(r)
	return false
}

func higher(a, b *smp.SMInfo) bool {
	return a.Priority > b.Priority || a.Priority == b.Priority && a.GUID < b.GUID
}

// become changes the manager's role.
func (m *Manager) become(now clock.Time, role smp.SMState, follow uint64, path []uint8) {
	was := m.role
	m.role = role
	if role == smp.SMMaster {
		m.firstSweep = m.firstSweep || was != smp.SMMaster
		m.follow = standby{refused: m.follow.refused, until: m.follow.until}
		if len(m.admin.groups) == 0 {
			m.createBroadcast()
		}
		m.emit(Event{Kind: BecameMaster})
		return
	}
	// The subnet is another manager's now: forget its state.
	m.requests.reset()
	m.resends = 0
	m.phase, m.sweep = idle, sweepState{}
	m.fabric, m.next = nil, nil
	m.lids = lids{of: make(map[uint64]uint16)}
	m.admin.init()
	m.follow = standby{guid: follow, path: path}
	switch role {
	case smp.SMStandby:
		m.follow.pollAt = now + clock.Time(m.config.PollInterval)
		m.emit(Event{Kind: BecameStandby, GUID: follow})
	case smp.SMNotActive:
		m.emit(Event{Kind: BecameInactive})
	}
}

// handedOver becomes standby: the other manager has agreed to be master.
func (m *Manager) handedOver(now clock.Time) {
	m.become(now, smp.SMStandby, m.follow.handover, m.follow.path)
}

// handoverRefused continues as master.
func (m *Manager) handoverRefused(now clock.Time) {
	m.follow = standby{refused: m.follow.handover, until: now + refusedFor}
	m.sweep.again = true
}

func (m *Manager) followTimeout(now clock.Time) {
	if m.role == smp.SMStandby && m.follow.pollAt != 0 && now >= m.follow.pollAt {
		m.follow.pollAt = 0
		m.actCount++
		m.enqueue(request{purpose: polling, method: mad.MethodGet, attribute: smp.AttrSMInfo, path: m.follow.path})
	}
}

func (m *Manager) followDeadline() clock.Time {
	if m.role != smp.SMStandby {
		return 0
	}
	return m.follow.pollAt
}

// polled handles the master's answer to a poll.
func (m *Manager) polled(now clock.Time, p *smp.SMP) {
	var i smp.SMInfo
	i.Decode(p.Data[:])
	if i.GUID != m.follow.guid || i.State != smp.SMMaster {
		m.notPolled(now)
		return
	}
	m.follow.misses = 0
	m.follow.pollAt = now + clock.Time(m.config.PollInterval)
}

// notPolled counts a poll without a master's answer. After maxMisses this manager starts to discover.
func (m *Manager) notPolled(now clock.Time) {
	if m.role != smp.SMStandby {
		return
	}
	m.follow.misses++
	m.follow.pollAt = now + clock.Time(m.config.PollInterval)
	if m.follow.misses >= maxMisses {
		m.become(now, smp.SMDiscovering, 0, nil)
		m.startSweep(now)
	}
}

// handleSMInfo answers another manager's Get of SMInfo, or carries out its Set.
func (m *Manager) handleSMInfo(now clock.Time, d *Datagram, p *smp.SMP) {
	stranger := m.config.MKey != 0 && p.MKey != m.config.MKey
	if stranger && (p.Method == mad.MethodSet || m.config.Protect > 1) {
		m.Counters.Malformed++
		return
	}
	var theirs smp.SMInfo
	theirs.Decode(p.Data[:])
	status := mad.StatusOK
	act := func() {}
	if p.Method == mad.MethodSet {
		if act = m.control(now, p.Modifier, &theirs); act == nil {
			status, act = mad.StatusInvalidField, func() {}
		}
	}
	mine := m.smInfo()
	if stranger {
		mine.SMKey = 0
	}
	p.Method, p.Header.Status = mad.MethodGetResp, status
	clear(p.Data[:])
	mine.Append(p.Data[:0])
	answer := Datagram{QPN: ib.QP0, LID: d.LID, Peer: d.Peer, SL: d.SL, PKey: d.PKey}
	if p.Directed() {
		p.SetReturning()
		answer.LID = node.PermissiveLID
	}
	p.Append(answer.MAD[:0])
	m.reply(&answer)
	act()
}

// control returns the action for a Set of SMInfo; nil: it is not allowed in this state (section 14.4.1, the table
// of transitions).
func (m *Manager) control(now clock.Time, modifier uint32, theirs *smp.SMInfo) func() {
	if theirs.SMKey != m.config.SMKey {
		return nil
	}
	switch {
	case modifier == smp.SMHandover && m.role == smp.SMStandby:
		return func() {
			m.requests.reset()
			m.resends = 0
			m.become(now, smp.SMMaster, 0, nil)
			m.startSweep(now)
		}
	case modifier == smp.SMHandover && m.role == smp.SMMaster:
		return func() { m.changed(now) }
	case modifier == smp.SMAcknowledge && m.role == smp.SMMaster,
		modifier == smp.SMAcknowledge && m.role == smp.SMStandby:
		return func() {}
	case modifier == smp.SMDisable && m.role == smp.SMStandby:
		return func() { m.become(now, smp.SMNotActive, 0, nil) }
	case modifier == smp.SMStandBy && m.role == smp.SMNotActive, modifier == smp.SMDiscover && m.role == smp.SMStandby:
		return func() {
			m.become(now, smp.SMDiscovering, 0, nil)
			m.startSweep(now)
		}
	}
	return nil
}

// handleTrap represses a trap, sweeps if the subnet may have changed, and forwards the notice to subscribers
// (section 14.3.9).
func (m *Manager) handleTrap(now clock.Time, d *Datagram, p *smp.SMP) {
	if m.role != smp.SMMaster {
		return
	}
	m.Counters.Traps++
	var n mad.Notice
	n.Decode(p.Data[:])
	answer := Datagram{QPN: ib.QP0, LID: d.LID, Peer: d.Peer, SL: d.SL}
	p.Method, p.MKey = mad.MethodTrapRepress, m.config.MKey
	if p.Directed() {
		return // section 13.4.5: traps are sent by LID
	}
	p.Append(answer.MAD[:0])
	m.reply(&answer)
	m.emitTrap(d.LID, &n)
	if n.Generic && (n.Trap == mad.TrapLinkState || n.Trap == mad.TrapLocalChanges) {
		m.trapped(now)
	}
	if from := m.fabric; from != nil && from.at(d.LID) != nil {
		m.admin.report(m, now, &n, m.gid(from.at(d.LID)))
	}
}

// minSweepGap is the time in nanoseconds from the end of a sweep to the next one that a trap starts.
const minSweepGap = clock.Time(50e6)

// trapped starts a sweep because of a trap, minSweepGap after the last one at the earliest.
func (m *Manager) trapped(now clock.Time) {
	if m.phase == idle {
		m.sweep.heavyAt = earlier(m.sweep.heavyAt, max(now, m.sweep.doneAt+minSweepGap))
		if m.sweep.heavyAt <= now {
			m.startSweep(now)
		}
		return
	}
	m.changed(now)
}
