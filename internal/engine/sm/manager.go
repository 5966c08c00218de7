// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// phase is the current phase of a sweep.
type phase uint8

const (
	idle     phase = iota
	discover       // discovering nodes
	tables         // filling the tables of switches and ports
	arm            // LIDs and links to Armed
	activate       // links to Active
	light          // light sweep: polling switches for changes
	groups         // filling multicast tables between sweeps
)

// Manager is a subnet manager and administrator.
type Manager struct {
	Counters Counters

	config   Config
	role     smp.SMState
	phase    phase
	requests requests
	resends  int // requests in flight that are to be repeated

	fabric *fabric // result of the last complete sweep; nil: none yet
	next   *fabric // result of the sweep in progress
	lids   lids
	sweep  sweepState
	follow standby

	admin      admin
	replies    []Datagram
	replied    int // how many of replies have been sent
	events     []Event
	actCount   uint32 // SMInfo:ActCount
	firstSweep bool   // no sweep has completed since this manager became master
}

// sweepState is when to sweep next, and the progress of the current sweep.
type sweepState struct {
	heavyAt  clock.Time // when a sweep is due; 0: none is
	lightAt  clock.Time
	again    bool // something changed during the sweep
	restarts int  // sweeps restarted for that reason, in a row
	failures int  // requests that failed
	backoff  clock.Time
	doneAt   clock.Time // when the last sweep completed
	full     bool       // TooManyNodes was emitted
}

// Counters count the actions of a manager.
type Counters struct {
	Requests   uint64 // SMPs sent as requests, including repeats
	Timeouts   uint64 // requests given up
	Unexpected uint64 // responses without a request
	Refused    uint64 // responses with an error status
	Malformed  uint64 // invalid datagrams, or not for a manager
	Sweeps     uint64 // completed
	Traps      uint64
	Queries    uint64 // to the administrator
	Reports    uint64 // sent for the first time
	Discarded  uint64 // datagrams not sent or not handled because of a limit
}

// New returns a manager that is idle until [Manager.Start].
func New(c Config) *Manager {
	c.defaults()
	m := &Manager{config: c, role: smp.SMDiscovering}
	m.requests.slots = make([]request, c.Window)
	m.lids.of = make(map[uint64]uint16)
	m.admin.init()
	return m
}

// Start starts the first sweep.
func (m *Manager) Start(now clock.Time) {
	m.role = smp.SMDiscovering
	m.startSweep(now)
}

// State returns the manager's state among the managers of the subnet.
func (m *Manager) State() smp.SMState { return m.role }

// LID returns the LID of the manager's port, 0 if it has none yet.
func (m *Manager) LID() uint16 {
	if m.fabric == nil {
		return 0
	}
	return m.fabric.own.lid
}

// Busy reports whether a sweep is in progress or due.
func (m *Manager) Busy() bool { return m.phase != idle || m.sweep.again }

// Resweep requests a sweep, after the one in progress if there is one.
func (m *Manager) Resweep(now clock.Time) {
	if m.role == smp.SMMaster {
		m.changed(now)
	}
}

// Accepts reports whether a datagram to the manager's port is for the manager: a request, or the response to one
// of its own. Responses and reports to programs at the port are not.
func (m *Manager) Accepts(b []byte) bool {
	var h mad.Header
	switch ok := h.Decode(b); {
	case !ok, !h.Class.Subnet() && h.Class != sa.Class:
		return false
	case h.Method.Answers():
		return uint32(h.TID>>32) == m.config.TIDBase
	}
	return h.Class.Subnet() || h.Method != mad.MethodReport
}

// HandleMAD handles a datagram to queue pair 0 or 1 of the manager's port.
func (m *Manager) HandleMAD(now clock.Time, d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	switch {
	case h.BaseVersion != mad.BaseVersion, d.LID == 0,
		d.LID >= node.FirstMulticastLID && (d.LID != node.PermissiveLID || d.QPN != ib.QP0):
		m.Counters.Malformed++ // including requests that have no address to respond to
	case d.QPN == ib.QP0 && h.Class.Subnet():
		m.handleSMP(now, d)
	case d.QPN == ib.QP1 && h.Class == sa.Class:
		m.handleSA(now, d)
	default:
		m.Counters.Malformed++
	}
}

func (m *Manager) handleSMP(now clock.Time, d *Datagram) {
	var p smp.SMP
	p.Decode(d.MAD[:])
	switch {
	case p.Method == mad.MethodGetResp:
		m.handleResponse(now, &p)
	case p.Method == mad.MethodTrap && p.Attribute == mad.AttrNotice:
		m.handleTrap(now, d, &p)
	case (p.Method == mad.MethodGet || p.Method == mad.MethodSet) && p.Attribute == smp.AttrSMInfo:
		m.handleSMInfo(now, d, &p)
	default:
		m.Counters.Malformed++
	}
}

func (m *Manager) handleResponse(now clock.Time, p *smp.SMP) {
	r, ok := m.takeAnswered(p.TID)
	if !ok {
		return
	}
	switch {
	case p.Attribute != r.attribute || p.Modifier != r.modifier && r.attribute != smp.AttrSMInfo:
		m.Counters.Malformed++
		m.requestFailed(now, &r)
	case p.Status() != mad.StatusOK:
		m.Counters.Refused++
		if r.purpose == configuring && !r.dev.unresponsive {
			e := nodeEvent(Refused, r.dev, r.portNum())
			e.Text = fmt.Sprintf("%s: %v", smp.AttributeName(r.attribute), p.Status())
			m.emit(e)
			r.dev.unresponsive = true // it is left alone for the rest of this sweep
		}
		m.requestFailed(now, &r)
	default:
		m.requestDone(now, &r, p)
	}
	m.advance(now)
}

func (m *Manager) requestDone(now clock.Time, r *request, p *smp.SMP) {
	switch r.purpose {
	case discovering:
		m.discovered(r, p)
	case configuring:
		m.configured(r, p)
	case probing:
		m.probed(now, r, p)
	case polling:
		m.polled(now, p)
	case handingOver:
		m.handedOver(now)
	}
}

func (m *Manager) requestFailed(now clock.Time, r *request) {
	switch r.purpose {
	case discovering:
		m.notDiscovered(r)
	case configuring:
		m.sweep.failures++
		if m.phase == groups {
			m.changed(now)
		}
		if !r.dev.unresponsive {
			m.emit(nodeEvent(Unresponsive, r.dev, r.portNum()))
		}
		r.dev.unresponsive = true
	case probing:
		m.changed(now)
	case polling:
		m.notPolled(now)
	case handingOver:
		m.handoverRefused(now)
	}
}

func (r *request) portNum() uint8 {
	if r.port == nil {
		return 0
	}
	return r.port.num
}

// advance enters the next phase when all requests of the current one are complete.
func (m *Manager) advance(now clock.Time) {
	for m.phase != idle && m.requests.empty() {
		switch m.phase {
		case discover:
			m.discoveryDone(now)
		case tables:
			m.phase = arm
			m.setPorts(false)
		case arm:
			m.phase = activate
			m.setPorts(true)
		case activate:
			m.sweepDone(now)
		case light:
			m.phase = idle
			m.next = nil
			m.sweep.lightAt = now + clock.Time(m.config.SweepInterval)
			m.whenIdle(now)
		case groups:
			m.phase = idle
			m.admin.flush(m)
			m.whenIdle(now)
		}
	}
}

// whenIdle starts the work that has waited for the manager to become idle.
func (m *Manager) whenIdle(now clock.Time) {
	if m.phase != idle || m.role != smp.SMMaster {
		return
	}
	if m.sweep.again {
		m.sweep.again = false
		m.sweep.heavyAt = earlier(m.sweep.heavyAt, max(now, m.sweep.doneAt+minSweepGap))
	}
	if m.sweep.heavyAt != 0 && m.sweep.heavyAt <= now {
		m.startSweep(now)
		return
	}
	m.updateGroups(now)
}

// changed requests a sweep, because the subnet differs from the last sweep's result. A sweep that is still
// discovering restarts, at most maxRestarts times in a row.
func (m *Manager) changed(now clock.Time) {
	switch {
	case m.role != smp.SMMaster:
	case m.phase == idle:
		m.startSweep(now)
	case m.phase == discover && m.sweep.restarts < maxRestarts:
		m.sweep.restarts++
		m.requests.reset()
		m.resends = 0
		m.startSweep(now)
	default:
		m.sweep.again = true
	}
}

// maxRestarts is how often in a row a sweep restarts because of changes.
const maxRestarts = 4

// HandleTimeout handles deadlines that have passed at now.
func (m *Manager) HandleTimeout(now clock.Time) {
	if d := m.requestDeadline(); d != 0 && now >= d {
		m.expire(now)
	}
	m.followTimeout(now)
	if m.role == smp.SMMaster && m.phase == idle {
		switch s := &m.sweep; {
		case s.heavyAt != 0 && now >= s.heavyAt:
			m.startSweep(now)
		case s.lightAt != 0 && now >= s.lightAt:
			m.startLight()
			m.advance(now)
		}
	}
	m.admin.timeout(m, now)
}

// Deadline returns when HandleTimeout is due; 0: not before another call.
func (m *Manager) Deadline() clock.Time {
	d := m.requestDeadline()
	if m.role == smp.SMMaster && m.phase == idle {
		d = earlier(d, earlier(m.sweep.heavyAt, m.sweep.lightAt))
	}
	d = earlier(d, m.followDeadline())
	return earlier(d, m.admin.deadline())
}

// Next returns the next datagram to send in d; false: there is none.
func (m *Manager) Next(now clock.Time, d *Datagram) bool {
	if m.replied < len(m.replies) {
		*d = m.replies[m.replied]
		if m.replied++; m.replied == len(m.replies) {
			m.replies, m.replied = m.replies[:0], 0
		}
		return true
	}
	return m.nextRequest(now, d) || m.admin.next(now, d)
}

// reply queues a datagram.
func (m *Manager) reply(d *Datagram) {
	if len(m.replies) >= m.config.Limits.Replies { // replies already sent count until the queue is empty
		m.Counters.Discarded++
		return
	}
	m.replies = append(m.replies, *d)
}
