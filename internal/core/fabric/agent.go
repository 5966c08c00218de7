// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// adapterAgent is the management agent of an adapter, which also rejects connection requests while no program
// at the adapter serves them, as a host does when no program listens.
type adapterAgent struct {
	*sma.Agent
	m *member
}

// HandleGMP handles a datagram to queue pair 1.
func (a adapterAgent) HandleGMP(now clock.Time, port int, b []byte) bool {
	return a.Agent.HandleGMP(now, port, b) || a.m.refuse(b)
}

// refuse turns a REQ or SIDR_REQ that no attachment serves into its rejection, in place (sections 12.6.7.2,
// 12.11.1). It reports whether it did.
func (m *member) refuse(b []byte) bool {
	var h mad.Header
	if len(b) < mad.Size || !h.Decode(b) || h.Class != mad.ClassCM || h.ClassVersion != mad.ClassCMVersion ||
		h.Method != mad.MethodSend ||
		h.Attribute != mad.AttrREQ && h.Attribute != mad.AttrSIDRREQ {
		return false
	}
	var transport [ib.BTHLen + ib.DETHLen + mad.Size]byte
	copy(transport[ib.BTHLen+ib.DETHLen:], b)
	if m.agentOf(ib.QP1, transport[:]) != nil {
		return false
	}
	data := b[mad.HeaderLen:mad.Size]
	if h.Attribute == mad.AttrSIDRREQ {
		var q mad.SIDRREQ
		if !q.Decode(data) {
			return false
		}
		h.Attribute = mad.AttrSIDRREP
		r := mad.SIDRREP{RequestID: q.RequestID, Status: mad.SIDRUnsupported, ServiceID: q.ServiceID}
		clear(data)
		r.Append(data[:0])
	} else {
		var q mad.REQ
		if !q.Decode(data) {
			return false
		}
		h.Attribute = mad.AttrREJ
		r := mad.REJ{RemoteCommID: q.LocalCommID, Message: mad.MessageREQ, Reason: mad.RejInvalidServiceID}
		clear(data)
		r.Append(data[:0])
	}
	h.Append(b[:0])
	return true
}
