// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// defaultThreshold is the initial value of LocalPhyErrors and OverrunErrors.
const defaultThreshold = 8

// updatePeriod is a flow control update period in nanoseconds: 65,536 symbol times at the slowest speed (section
// 7.9.4.1).
const updatePeriod = clock.Time(65536 * 4)

// errorCounts are the counts of a port towards its thresholds.
type errorCounts struct {
	physical uint8      // errors since the threshold was last exceeded
	periods  uint8      // in a row that had overruns
	period   clock.Time // when the last of them began
}

// PhysicalError counts a packet with a wrong VCRC. Whenever there are more than LocalPhyErrors, it increments
// LocalLinkIntegrityErrors and raises trap 129.
func (a *Agent) PhysicalError(now clock.Time, port int) {
	f := &a.ports[port].errors
	if f.physical++; f.physical <= a.ports[port].phyErrThreshold {
		return
	}
	f.physical = 0
	a.node.Ports[port].Counters.LocalIntegrity++
	a.ThresholdReached(now, port, mad.TrapLinkIntegrity)
}

// BufferOverrun records a packet beyond the credits. After OverrunErrors flow control update periods in a row with
// such packets it raises trap 130.
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

// WatchdogExpired raises trap 131: no flow control packet came for too long.
func (a *Agent) WatchdogExpired(now clock.Time, port int) {
	a.ThresholdReached(now, port, mad.TrapFlowControl)
}
