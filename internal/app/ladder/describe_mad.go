// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// management describes a management datagram.
func (w *words) management(h *mad.Header, data []byte) {
	w.also("transaction 0x%x", h.TID)
	if h.Class == mad.ClassCM {
		w.connection(h, data)
		return
	}
	class, attribute := fmt.Sprintf("class 0x%02x", uint8(h.Class)),
		fmt.Sprintf("attribute 0x%04x", uint16(h.Attribute))
	switch {
	case h.Class.Subnet():
		class, attribute = "SMP", smp.AttributeName(h.Attribute)
	case h.Class == sa.Class:
		class, attribute = "SA", sa.Name(h.Attribute)
	case h.Class == mad.ClassPerf:
		class = "Perf"
	}
	w.op = class + " " + method(h.Method)
	w.facts = append(w.facts, attribute)
	if h.Modifier != 0 {
		w.also("modifier 0x%x", h.Modifier)
	}
	if s := h.Status &^ 0x8000; s != 0 { // without the direction of a directed route
		w.note("status: %v", s)
	}
}

// method returns the name of a method (section 13.4.5).
func method(m mad.Method) string {
	switch m {
	case 0x01:
		return "Get"
	case 0x02:
		return "Set"
	case 0x03:
		return "Send"
	case 0x05:
		return "Trap"
	case 0x06:
		return "Report"
	case 0x07:
		return "TrapRepress"
	case 0x12:
		return "GetTable"
	case 0x15:
		return "Delete"
	case 0x81:
		return "GetResp"
	case 0x86:
		return "ReportResp"
	case 0x92:
		return "GetTableResp"
	case 0x95:
		return "DeleteResp"
	}
	return fmt.Sprintf("method 0x%02x", uint8(m))
}

// connection describes a message of connection managers (chapter 12).
func (w *words) connection(h *mad.Header, data []byte) {
	w.op = "CM " + h.Attribute.String()
	switch h.Attribute {
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(data)
		w.fact("QP 0x%06x", uint32(m.LocalQPN))
		w.note("service %s, PSN from %d, MTU %s, timeout %s", service(m.ServiceID), m.StartingPSN, pathMTU(m.PathMTU),
			units.Duration(m.Primary.AckTimeout.Duration()))
		w.note("responder resources %d, initiator depth %d, retries %d, RNR retries %s", m.ResponderResources,
			m.InitiatorDepth, m.RetryCount, rnrRetries(m.RNRRetryCount))
		w.also("communication ID 0x%08x", uint32(m.LocalCommID))
	case mad.AttrREP:
		var m mad.REP
		m.Decode(data)
		w.fact("QP 0x%06x", uint32(m.LocalQPN))
		w.note("PSN from %d, responder resources %d, initiator depth %d, RNR retries %s", m.StartingPSN,
			m.ResponderResources, m.InitiatorDepth, rnrRetries(m.RNRRetryCount))
		w.also("communication IDs 0x%08x, 0x%08x", uint32(m.LocalCommID), uint32(m.RemoteCommID))
	case mad.AttrREJ:
		var m mad.REJ
		m.Decode(data)
		w.note("rejected: %v", m.Reason)
	case mad.AttrMRA:
		var m mad.MRA
		m.Decode(data)
		w.note("the answer takes up to %s longer", units.Duration(m.ServiceTimeout.Duration()))
	case mad.AttrDREQ:
		var m mad.DREQ
		m.Decode(data)
		w.fact("QP 0x%06x", uint32(m.RemoteQPN))
	case mad.AttrSIDRREQ:
		var m mad.SIDRREQ
		m.Decode(data)
		w.note("service %s", service(m.ServiceID))
	case mad.AttrSIDRREP:
		var m mad.SIDRREP
		m.Decode(data)
		w.fact("QP 0x%06x", uint32(m.QPN))
		w.note("status %d, Q_Key 0x%08x", m.Status, uint32(m.QKey))
	}
}

// service names a service ID; IDs of the RDMA IP CM service have a port (annex A11).
func service(id mad.ServiceID) string {
	if id&mad.IPServiceMask == mad.IPService(id.PortSpace(), 0) {
		return fmt.Sprintf("0x%x (port %d)", uint64(id), id.Port())
	}
	return fmt.Sprintf("0x%x", uint64(id))
}

func pathMTU(code uint8) string {
	if 1 <= code && code <= 5 {
		return fmt.Sprint(128 << code)
	}
	return fmt.Sprintf("code %d", code)
}

func rnrRetries(n uint8) string {
	if n == 7 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
