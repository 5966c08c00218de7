// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// defaultThreshold is LocalPhyErrors and OverrunErrors before a manager has set them.
const defaultThreshold = 8

// updatePeriod is how long a flow control update period is: 65,536 symbol times of the slowest speed
// (section 7.9.4.1).
const updatePeriod = clock.Time(65536 * 4)

// errorCounts count up to the thresholds of a port.
type errorCounts struct {
	physical uint8      // errors since the threshold was last exceeded
	periods  uint8      // in a row that had overruns
	period   clock.Time // when the last of them began
}

// PhysicalError counts a packet whose VCRC is wrong. Each time that there are more of them than
// LocalPhyErrors, LocalLinkIntegrityErrors counts one, and the manager is told (trap 129).
func (a *Agent) PhysicalError(now clock.Time, port int) {
	f := &a.ports[port].errors
	if f.physical++; f.physical <= a.ports[port].phyErrThreshold {
		return
	}
	f.physical = 0
	a.node.Ports[port].Counters.LocalIntegrity++
	a.ThresholdReached(now, port, mad.TrapLinkIntegrity)
}

// BufferOverrun notes a packet beyond the credits. After OverrunErrors flow control update periods in a row
// that have some, the manager is told (trap 130).
func (a *Agent) BufferOverrun(now clock.Time, port int) {
	f := &a.ports[port].errors
	switch since := now - f.period; {
	case f.periods > 0 && since < updatePeriod:
		return
	case f.periods > 0 && since < 2*updatePeriod:
		f.periods++
		f.period += updatePeriod
	default:
		f.periods, f.period = 1, now
	}
	if f.periods >= max(a.ports[port].overrunThreshold, 1) {
		f.periods = 0
		a.ThresholdReached(now, port, mad.TrapBufferOverrun)
	}
}

// WatchdogExpired tells the manager that the other end of a link was silent for too long (trap 131).
func (a *Agent) WatchdogExpired(now clock.Time, port int) {
	a.ThresholdReached(now, port, mad.TrapFlowControl)
}
