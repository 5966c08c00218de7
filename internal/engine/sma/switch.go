// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

func (a *Agent) getSwitchInfo(q *request) mad.Status {
	t := a.node.Tables
	m := smp.SwitchInfo{LinearCap: uint16(len(t.Linear)), MulticastCap: uint16(len(t.Multicast)), LinearTop: t.Top,
		PrimaryMulticast: t.PrimaryMulticast, NotPrimaryMulticast: t.NotPrimaryMulticast, LifeTime: t.LifeTime,
		PortStateChange: t.Changed, EnforcementCap: t.EnforcementCap}
	if t.EnforcementCap > 0 {
		m.Flags = smp.SwitchEnforcesIn | smp.SwitchEnforcesOut
	}
	return fill(q.p, m.Append(q.p.Data[:0]))
}

func (a *Agent) setSwitchInfo(q *request) mad.Status {
	var m smp.SwitchInfo
	m.Decode(q.p.Data[:])
	t := a.node.Tables
	port := func(p uint8) bool { return p == node.NoRoute || int(p) < len(a.node.Ports) }
	if !port(m.PrimaryMulticast) || !port(m.NotPrimaryMulticast) || int(m.LinearTop) >= len(t.Linear) {
		return mad.StatusInvalidField
	}
	t.Top, t.LifeTime = m.LinearTop, m.LifeTime
	t.PrimaryMulticast, t.NotPrimaryMulticast = m.PrimaryMulticast, m.NotPrimaryMulticast
	if m.PortStateChange { // written by a manager that has seen it, it is cleared
		t.Changed = false
	}
	a.markChanged(0)
	return mad.StatusOK
}

// linear returns the rows of the linear forwarding table that a request is about.
func (a *Agent) linear(q *request) []uint8 {
	return block(a.node.Tables.Linear, q.p.Modifier, smp.LinearPerBlock)
}

// block returns block n of a table, which may be shorter at its end, and nil if the table has none.
func block[T any](table []T, n uint32, size int) []T {
	start := int64(n) * int64(size)
	if start >= int64(len(table)) {
		return nil
	}
	return table[start:min(start+int64(size), int64(len(table)))]
}

func (a *Agent) getLinear(q *request) mad.Status {
	rows := a.linear(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	return fill(q.p, append(q.p.Data[:0], rows...))
}

func (a *Agent) setLinear(q *request) mad.Status {
	rows := a.linear(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	copy(rows, q.p.Data[:])
	return mad.StatusOK
}

// multicast returns the rows of the multicast forwarding table that a request is about, and where its
// 16 ports are in each.
func (a *Agent) multicast(q *request) (rows [][4]uint64, word int, shift uint) {
	position := int(q.p.Modifier >> 28)
	if q.p.Modifier&0x0fff_fe00 != 0 || position*16 >= len(a.node.Ports) {
		return nil, 0, 0
	}
	return block(a.node.Tables.Multicast, q.p.Modifier&0x1ff, smp.MulticastPerBlock), position / 4,
		uint(position%4) * 16
}

func (a *Agent) getMulticast(q *request) mad.Status {
	rows, word, shift := a.multicast(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.MulticastTable
	for i, r := range rows {
		m[i] = uint16(r[word] >> shift)
	}
	return fill(q.p, m.Append(q.p.Data[:0]))
}

// setMulticast sets a block. Ports that the switch does not have stay out of it.
func (a *Agent) setMulticast(q *request) mad.Status {
	rows, word, shift := a.multicast(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.MulticastTable
	m.Decode(q.p.Data[:])
	ports := uint64(0xffff)
	if n := len(a.node.Ports) - word*64 - int(shift); n < 16 {
		ports = 1<<n - 1
	}
	for i := range rows {
		rows[i][word] = rows[i][word]&^(0xffff<<shift) | uint64(m[i])&ports<<shift
	}
	return mad.StatusOK
}
