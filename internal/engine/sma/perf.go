// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
)

// HandleGMP handles a datagram to queue pair 1 that came in at a port. True: b is now the response to
// it. False: it is of a class that the node does not serve, a response, or too short.
func (a *Agent) HandleGMP(_ clock.Time, port int, b []byte) bool {
	var h mad.Header
	if len(b) < mad.Size || !h.Decode(b) || h.Class != mad.ClassPerf || port < 0 || port >= len(a.node.Ports) ||
		h.Method.Answers() || h.Method == mad.MethodTrap || h.Method == mad.MethodReport {
		return false
	}
	h.Status = a.serveCounters(&h, port, b[pm.DataOffset:mad.Size])
	h.Method = mad.MethodGetResp
	h.Append(b[:0])
	return true
}

// serveCounters carries out a request of performance management, whose attribute is in b (section
// 16.1.2).
func (a *Agent) serveCounters(h *mad.Header, port int, b []byte) mad.Status {
	set := h.Method == mad.MethodSet
	switch {
	case h.BaseVersion != mad.BaseVersion || h.ClassVersion != pm.ClassVersion:
		return mad.StatusUnsupportedVersion
	case !set && h.Method != mad.MethodGet:
		return mad.StatusUnsupportedMethod
	case h.Attribute == mad.AttrClassPortInfo && !set:
		m := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: pm.ClassVersion,
			RespTime: mad.Timeout(a.addressPort(port).Address.RespTime),
			CapMask:  pm.CapAllPorts | pm.CapExtended | pm.CapXmitWait | mad.CapCapabilityMask2,
			CapMask2: pm.Cap2ExtendedErrors}
		clear(b[len(m.Append(b[:0])):])
		return mad.StatusOK
	case h.Attribute == pm.AttrPortCounters:
		return a.portCounters(set, b)
	case h.Attribute == pm.AttrPortCountersExtended:
		return a.portCountersExtended(set, b)
	}
	return mad.StatusUnsupportedAttribute
}

// selected returns the ports that a PortSelect names, and none if there is no such port.
func (a *Agent) selected(sel uint8) []node.Port {
	all := a.node.Ports
	first := 0
	if a.node.Tables == nil {
		first = 1
	}
	switch {
	case sel == pm.AllPorts:
		return all[first:]
	case int(sel) < first || int(sel) >= len(all):
		return nil
	}
	return all[sel : sel+1]
}

// extFields is how many counters of PortCountersExtended there are here: all but QP1Dropped.
const extFields = 8 + 13

// fields returns the counters in the order of PortCountersExtended, traffic first.
func fields(c *node.Counters) [extFields]*uint64 {
	return [...]*uint64{
		&c.XmitData, &c.RcvData, &c.XmitPkts, &c.RcvPkts, &c.UnicastXmit, &c.UnicastRcv, &c.MulticastXmit,
		&c.MulticastRcv, &c.SymbolErrors, &c.LinkErrorRecovery, &c.LinkDowned, &c.RcvErrors, &c.RcvRemotePhysical,
		&c.RcvSwitchRelayErrors,
		&c.XmitDiscards, &c.XmitConstraint, &c.RcvConstraint, &c.LocalIntegrity, &c.BufferOverrun, &c.VL15Dropped,
		&c.XmitWait,
	}
}

// sum returns the counters of ports together.
func sum(ports []node.Port) (s node.Counters) {
	all := fields(&s)
	for i := range ports {
		for j, c := range fields(&ports[i].Counters) {
			*all[j] += min(*c, math.MaxUint64-*all[j])
		}
	}
	return s
}

func (a *Agent) portCountersExtended(set bool, b []byte) mad.Status {
	var m pm.PortCountersExtended
	m.Decode(b)
	ports := a.selected(m.Port)
	if ports == nil {
		return mad.StatusInvalidField
	}
	values := func(i int) *uint64 {
		if i < len(m.Traffic) {
			return &m.Traffic[i]
		}
		return &m.Errors[i-len(m.Traffic)]
	}
	if set {
		for i := range ports {
			for j, c := range fields(&ports[i].Counters) {
				bit := j
				if j >= len(m.Traffic) {
					bit += 32 - len(m.Traffic)
				}
				if m.Select>>bit&1 != 0 {
					*c = *values(j)
				}
			}
		}
	}
	s := sum(ports)
	for j, c := range fields(&s) {
		*values(j) = *c
	}
	m.Errors[len(m.Errors)-1] = 0 // QP1Dropped
	clear(b[len(m.Append(b[:0])):])
	return mad.StatusOK
}

func (a *Agent) portCounters(set bool, b []byte) mad.Status {
	var m pm.PortCounters
	m.Decode(b)
	ports := a.selected(m.Port)
	if ports == nil {
		return mad.StatusInvalidField
	}
	if set {
		for i := range ports {
			write(&m, &ports[i].Counters)
		}
	}
	c := sum(ports)
	m = pm.PortCounters{Resv: m.Resv, Port: m.Port, Select: m.Select,
		SymbolErrors: narrow[uint16](c.SymbolErrors), LinkErrorRecovery: narrow[uint8](c.LinkErrorRecovery),
		LinkDowned: narrow[uint8](c.LinkDowned), RcvErrors: narrow[uint16](c.RcvErrors),
		RcvRemotePhysical: narrow[uint16](c.RcvRemotePhysical), RcvSwitchRelay: narrow[uint16](c.RcvSwitchRelayErrors),
		XmitDiscards: narrow[uint16](c.XmitDiscards), XmitConstraint: narrow[uint8](c.XmitConstraint),
		RcvConstraint: narrow[uint8](c.RcvConstraint), VL15Dropped: narrow[uint16](c.VL15Dropped),
		LocalIntegrity: uint8(min(c.LocalIntegrity, 15)), BufferOverrun: uint8(min(c.BufferOverrun, 15)),
		XmitData: narrow[uint32](c.XmitData), RcvData: narrow[uint32](c.RcvData),
		XmitPkts: narrow[uint32](c.XmitPkts), RcvPkts: narrow[uint32](c.RcvPkts), XmitWait: narrow[uint32](c.XmitWait)}
	clear(b[len(m.Append(b[:0])):])
	return mad.StatusOK
}

// narrow returns a counter in a narrower field, where it stops at the largest value (section 16.1.3.5).
func narrow[T uint8 | uint16 | uint32](c uint64) T { return T(min(c, uint64(^T(0)))) }

// write sets the counters that a Set of PortCounters selects.
func write(m *pm.PortCounters, c *node.Counters) {
	for _, f := range [...]struct {
		sel   pm.Select
		to    *uint64
		value uint32
	}{
		{pm.SymbolErrors, &c.SymbolErrors, uint32(m.SymbolErrors)},
		{pm.LinkErrorRecovery, &c.LinkErrorRecovery, uint32(m.LinkErrorRecovery)},
		{pm.LinkDowned, &c.LinkDowned, uint32(m.LinkDowned)},
		{pm.RcvErrors, &c.RcvErrors, uint32(m.RcvErrors)},
		{pm.RcvRemotePhysical, &c.RcvRemotePhysical, uint32(m.RcvRemotePhysical)},
		{pm.RcvSwitchRelay, &c.RcvSwitchRelayErrors, uint32(m.RcvSwitchRelay)},
		{pm.XmitDiscards, &c.XmitDiscards, uint32(m.XmitDiscards)},
		{pm.XmitConstraint, &c.XmitConstraint, uint32(m.XmitConstraint)},
		{pm.RcvConstraint, &c.RcvConstraint, uint32(m.RcvConstraint)},
		{pm.LocalIntegrity, &c.LocalIntegrity, uint32(m.LocalIntegrity)},
		{pm.BufferOverrun, &c.BufferOverrun, uint32(m.BufferOverrun)},
		{pm.VL15Dropped, &c.VL15Dropped, uint32(m.VL15Dropped)},
		{pm.XmitData, &c.XmitData, m.XmitData},
		{pm.RcvData, &c.RcvData, m.RcvData},
		{pm.XmitPkts, &c.XmitPkts, m.XmitPkts},
		{pm.RcvPkts, &c.RcvPkts, m.RcvPkts},
		{pm.XmitWait, &c.XmitWait, m.XmitWait},
	} {
		if m.Select&f.sel != 0 {
			*f.to = uint64(f.value)
		}
	}
}
