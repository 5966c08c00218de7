// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/engine/node"

// arbiter is the state of a port's VL arbitration (section 7.6.9).
type arbiter struct {
	high, low tableState
	highBytes int // bytes sent from the high-priority table since the low-priority table's last turn
}

// tableState is the position in one table.
type tableState struct {
	at   int // row
	left int // bytes that the row may still send
}

const (
	weightUnit    = 64   // bytes per unit of an entry's weight
	limitUnit     = 4096 // bytes per unit of VLHighLimit
	limitInfinite = 255
)

// next returns the row whose turn it is, among the rows whose lane is in ready; none: there is none. A row keeps its
// turn while it has weight left, and loses the rest when it has nothing to send.
func (t *tableState) next(table []node.ArbEntry, ready uint32) int {
	if t.at < len(table) && t.left > 0 && allows(table[t.at], ready) {
		return t.at
	}
	for i := 1; i <= len(table); i++ {
		if at := (t.at + i) % len(table); allows(table[at], ready) {
			return at
		}
	}
	return none
}

func allows(e node.ArbEntry, ready uint32) bool {
	return e.Weight > 0 && e.VL < node.DataVLs && ready&(1<<e.VL) != 0
}

// charge charges size bytes to a row. Packets are not divided: the last one may exceed the weight.
func (t *tableState) charge(table []node.ArbEntry, at, size int) {
	if at != t.at || t.left <= 0 {
		t.at, t.left = at, int(table[at].Weight)*weightUnit
	}
	t.left -= size
}

// arbitrate returns the lane that sends next, of the lanes in ready; false: the tables have none of them.
func (o *Port) arbitrate(ready uint32) (uint8, bool) {
	lanes := &o.state.Lanes
	a := &o.arb
	hi, lo := none, none
	if len(lanes.High) > 0 {
		hi = a.high.next(lanes.High, ready)
	}
	if hi == none || !a.highAllowed(lanes.HighLimit) {
		lo = a.low.next(lanes.Low, ready)
	}
	switch {
	case lo != none:
		vl := lanes.Low[lo].VL
		a.low.charge(lanes.Low, lo, len(o.out[vl].head().bytes))
		a.highBytes = 0
		return vl, true
	case hi != none:
		if !a.highAllowed(lanes.HighLimit) {
			a.highBytes = 0 // the low table had its chance
		}
		vl := lanes.High[hi].VL
		size := len(o.out[vl].head().bytes)
		a.high.charge(lanes.High, hi, size)
		a.highBytes += size
		return vl, true
	}
	return 0, false
}

// highAllowed reports whether the high-priority table may send before the low-priority one.
func (a *arbiter) highAllowed(limit uint8) bool {
	return limit == limitInfinite || a.highBytes == 0 || a.highBytes < int(limit)*limitUnit
}
