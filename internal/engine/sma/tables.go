// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

func (a *Agent) getGUIDInfo(q *request) mad.Status {
	rows := block(a.addressPort(q.at).GUIDs, q.p.Modifier, smp.GUIDsPerBlock)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.GUIDInfo
	copy(m[:], rows)
	return fill(q.p, m.Append(q.p.Data[:0]))
}

// setGUIDInfo sets a block; the first GUID of a port is its own for ever (section 14.2.5.5).
func (a *Agent) setGUIDInfo(q *request) mad.Status {
	p := a.addressPort(q.at)
	rows := block(p.GUIDs, q.p.Modifier, smp.GUIDsPerBlock)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.GUIDInfo
	m.Decode(q.p.Data[:])
	copy(rows, m[:])
	p.GUIDs[0] = p.GUID
	a.markChanged(a.addressPortNum(q.at))
	return mad.StatusOK
}

// pkeys returns the rows of the partition table that a request is about, and its port (section
// 14.2.5.7).
func (a *Agent) pkeys(q *request) (rows []ib.PKey, num int) {
	num, p := a.numbered(q, q.p.Modifier>>16)
	if p == nil {
		return nil, 0
	}
	table := p.Partition.PKeys
	if a.external(num) {
		table = table[:min(len(table), int(a.node.Tables.EnforcementCap))]
	}
	return block(table, q.p.Modifier&0xffff, smp.PKeysPerBlock), num
}

func (a *Agent) getPKeys(q *request) mad.Status {
	rows, _ := a.pkeys(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.PKeyTable
	copy(m[:], rows)
	return fill(q.p, m.Append(q.p.Data[:0]))
}

func (a *Agent) setPKeys(q *request) mad.Status {
	rows, num := a.pkeys(q)
	if rows == nil {
		return mad.StatusInvalidField
	}
	var m smp.PKeyTable
	m.Decode(q.p.Data[:])
	copy(rows, m[:])
	a.markChanged(num)
	return mad.StatusOK
}

// slToVL returns the row of the table that a request is about, and its port: an adapter has one row, a
// switch one for each pair of an input and an output port (section 14.2.5.8).
func (a *Agent) slToVL(q *request) (row *[node.ServiceLevels]uint8, num int) {
	num, p := a.numbered(q, q.p.Modifier&0xff)
	in := int(q.p.Modifier >> 8) // bits above the port would set many pairs at once, which is not supported
	if a.node.Tables == nil {
		in = 0
	}
	if p == nil || in >= len(p.Lanes.SLtoVL) {
		return nil, 0
	}
	return &p.Lanes.SLtoVL[in], num
}

func (a *Agent) getSLtoVL(q *request) mad.Status {
	row, _ := a.slToVL(q)
	if row == nil {
		return mad.StatusInvalidField
	}
	m := smp.SLtoVL(*row)
	return fill(q.p, m.Append(q.p.Data[:0]))
}

func (a *Agent) setSLtoVL(q *request) mad.Status {
	row, num := a.slToVL(q)
	if row == nil {
		return mad.StatusInvalidField
	}
	var m smp.SLtoVL
	m.Decode(q.p.Data[:])
	*row = m
	a.markChanged(num)
	return mad.StatusOK
}

// arbitration returns the table that a request is about, the row where its part begins, and its port.
// Ports with one lane have no tables (section 14.2.5.9).
func (a *Agent) arbitration(q *request) (table *[]node.ArbEntry, start, num int) {
	num, p := a.numbered(q, q.p.Modifier&0xffff)
	if p == nil || p.Lanes.Cap <= 1 {
		return nil, 0, 0
	}
	switch q.p.Modifier >> 16 {
	case smp.ArbLow:
		return &p.Lanes.Low, 0, num
	case smp.ArbLowUpper:
		return &p.Lanes.Low, smp.ArbPerBlock, num
	case smp.ArbHigh:
		return &p.Lanes.High, 0, num
	case smp.ArbHighUpper:
		return &p.Lanes.High, smp.ArbPerBlock, num
	}
	return nil, 0, 0
}

func (a *Agent) getArbitration(q *request) mad.Status {
	table, start, _ := a.arbitration(q)
	if table == nil {
		return mad.StatusInvalidField
	}
	var m smp.VLArbitration // rows that were not set have no weight
	for i := range m {
		if start+i < len(*table) {
			m[i] = smp.ArbEntry((*table)[start+i])
		}
	}
	return fill(q.p, m.Append(q.p.Data[:0]))
}

func (a *Agent) setArbitration(q *request) mad.Status {
	table, start, num := a.arbitration(q)
	if table == nil {
		return mad.StatusInvalidField
	}
	var m smp.VLArbitration
	m.Decode(q.p.Data[:])
	for len(*table) < start+len(m) {
		*table = append(*table, node.ArbEntry{})
	}
	for i, e := range m {
		(*table)[start+i] = node.ArbEntry{VL: e.VL & 0xf, Weight: e.Weight}
	}
	a.markChanged(num)
	return mad.StatusOK
}
