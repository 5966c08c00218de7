// SPDX-License-Identifier: Apache-2.0

package pm

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

const (
	// ClassVersion is the version of the class (section 16.1.1).
	ClassVersion = 1
	// DataOffset is the offset of the attribute in a datagram (section 16.1.1).
	DataOffset = 64
	// AllPorts is the PortSelect for the sum of all ports, if ClassPortInfo has CapAllPorts.
	AllPorts = 255
)

// The attributes of performance management (section 16.1.2). ClassPortInfo is
// [mad.AttrClassPortInfo].
const (
	AttrPortSamplesControl   mad.Attribute = 0x0010
	AttrPortSamplesResult    mad.Attribute = 0x0011
	AttrPortCounters         mad.Attribute = 0x0012
	AttrPortCountersExtended mad.Attribute = 0x001d
)

// Bits of ClassPortInfo:CapabilityMask of this class (section 16.1.2.1).
const (
	CapAllPorts      uint16 = 1 << 8
	CapExtended      uint16 = 1 << 9  // PortCountersExtended, all of it
	CapExtendedNoIBA uint16 = 1 << 10 // without the counters of unicast and multicast packets
	CapXmitWait      uint16 = 1 << 12 // PortCounters:PortXmitWait
	CapQP1Dropped    uint16 = 1 << 15
)

// Cap2ExtendedErrors is the bit of ClassPortInfo:CapabilityMask2 for this class: PortCountersExtended has
// the counters of errors, too.
const Cap2ExtendedErrors uint32 = 1 << 1

// Lengths of attributes in bytes.
const (
	PortCountersLen         = 44
	PortCountersExtendedLen = 184
)

// Select names the counters that a Set writes, one bit each. In PortCounters the low 16 bits are
// CounterSelect, the bits above are CounterSelect2.
type Select uint32

// The counters of PortCounters (section 16.1.3.5).
const (
	SymbolErrors Select = 1 << iota
	LinkErrorRecovery
	LinkDowned
	RcvErrors
	RcvRemotePhysical
	RcvSwitchRelay
	XmitDiscards
	XmitConstraint
	RcvConstraint
	LocalIntegrity
	BufferOverrun
	VL15Dropped
	XmitData
	RcvData
	XmitPkts
	RcvPkts
	XmitWait
	QP1Dropped
)

// PortCounters has the counters of a port. They stop at the largest value of their field (section
// 16.1.3.5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|   Reserved    |  PortSelect   |         CounterSelect         |
//	+---------------+---------------+---------------+---------------+
//	|     SymbolErrorCounter        |LinkErrRecovery|  LinkDowned   |
//	+-------------------------------+---------------+---------------+
//	|        PortRcvErrors          | PortRcvRemotePhysicalErrors   |
//	+-------------------------------+-------------------------------+
//	|  PortRcvSwitchRelayErrors     |       PortXmitDiscards        |
//	+---------------+---------------+---------------+-------+-------+
//	|XmitConstraint | RcvConstraint |CounterSelect2 |Integr.|Overrun|
//	+---------------+---------------+---------------+-------+-------+
//	|         QP1Dropped            |          VL15Dropped          |
//	+-------------------------------+-------------------------------+
//	|                         PortXmitData                          |
//	+---------------------------------------------------------------+
//	|                         PortRcvData                           |
//	+---------------------------------------------------------------+
//	|                         PortXmitPkts                          |
//	+---------------------------------------------------------------+
//	|                         PortRcvPkts                           |
//	+---------------------------------------------------------------+
//	|                         PortXmitWait                          |
//	+---------------------------------------------------------------+
type PortCounters struct {
	Resv              uint8
	Port              uint8  // PortSelect; AllPorts: the sum
	Select            Select // CounterSelect and CounterSelect2: 24 bits
	SymbolErrors      uint16
	LinkErrorRecovery uint8
	LinkDowned        uint8
	RcvErrors         uint16
	RcvRemotePhysical uint16
	RcvSwitchRelay    uint16
	XmitDiscards      uint16
	XmitConstraint    uint8
	RcvConstraint     uint8
	LocalIntegrity    uint8 // 4 bits
	BufferOverrun     uint8 // 4 bits
	QP1Dropped        uint16
	VL15Dropped       uint16
	XmitData          uint32 // in 4 bytes
	RcvData           uint32 // in 4 bytes
	XmitPkts          uint32
	RcvPkts           uint32
	XmitWait          uint32 // in ticks
}

// Decode reads the attribute in b. It returns false if b is shorter than PortCountersLen.
func (m *PortCounters) Decode(b []byte) bool {
	if len(b) < PortCountersLen {
		return false
	}
	be := binary.BigEndian
	*m = PortCounters{
		Resv: b[0], Port: b[1], Select: Select(be.Uint16(b[2:])) | Select(b[18])<<16,
		SymbolErrors: be.Uint16(b[4:]), LinkErrorRecovery: b[6], LinkDowned: b[7],
		RcvErrors: be.Uint16(b[8:]), RcvRemotePhysical: be.Uint16(b[10:]), RcvSwitchRelay: be.Uint16(b[12:]),
		XmitDiscards: be.Uint16(b[14:]), XmitConstraint: b[16], RcvConstraint: b[17],
		LocalIntegrity: b[19] >> 4, BufferOverrun: b[19] & 0xf,
		QP1Dropped: be.Uint16(b[20:]), VL15Dropped: be.Uint16(b[22:]),
		XmitData: be.Uint32(b[24:]), RcvData: be.Uint32(b[28:]), XmitPkts: be.Uint32(b[32:]),
		RcvPkts:  be.Uint32(b[36:]),
		XmitWait: be.Uint32(b[40:]),
	}
	return true
}

// Append appends the attribute to b.
func (m *PortCounters) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, m.Resv, m.Port)
	b = be.AppendUint16(b, uint16(m.Select))
	b = be.AppendUint16(b, m.SymbolErrors)
	b = append(b, m.LinkErrorRecovery, m.LinkDowned)
	b = be.AppendUint16(b, m.RcvErrors)
	b = be.AppendUint16(b, m.RcvRemotePhysical)
	b = be.AppendUint16(b, m.RcvSwitchRelay)
	b = be.AppendUint16(b, m.XmitDiscards)
	b = append(b, m.XmitConstraint, m.RcvConstraint, uint8(m.Select>>16), m.LocalIntegrity<<4|m.BufferOverrun&0xf)
	b = be.AppendUint16(b, m.QP1Dropped)
	b = be.AppendUint16(b, m.VL15Dropped)
	b = be.AppendUint32(b, m.XmitData)
	b = be.AppendUint32(b, m.RcvData)
	b = be.AppendUint32(b, m.XmitPkts)
	b = be.AppendUint32(b, m.RcvPkts)
	return be.AppendUint32(b, m.XmitWait)
}

// SelectExtended names counters of PortCountersExtended, one bit each. The low 16 bits are
// CounterSelect; CounterSelect2, for errors, is above bit 32.
type SelectExtended uint64

// The counters of PortCountersExtended (section 16.1.4.11).
const (
	ExtXmitData SelectExtended = 1 << iota
	ExtRcvData
	ExtXmitPkts
	ExtRcvPkts
	ExtUnicastXmit
	ExtUnicastRcv
	ExtMulticastXmit
	ExtMulticastRcv
)

// The counters of errors in PortCountersExtended.
const (
	ExtSymbolErrors SelectExtended = 1 << (32 + iota)
	ExtLinkErrorRecovery
	ExtLinkDowned
	ExtRcvErrors
	ExtRcvRemotePhysical
	ExtRcvSwitchRelay
	ExtXmitDiscards
	ExtXmitConstraint
	ExtRcvConstraint
	ExtLocalIntegrity
	ExtBufferOverrun
	ExtVL15Dropped
	ExtXmitWait
	ExtQP1Dropped
)

// PortCountersExtended has the counters of a port, 64 bits each, in the order of their bits in
// SelectExtended (section 16.1.4.11).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|   Reserved    |  PortSelect   |         CounterSelect         |
//	+---------------+---------------+-------------------------------+
//	|                        CounterSelect2                         |
//	+---------------------------------------------------------------+
//	|            8 counters of traffic (8 bytes each)               |
//	+---------------------------------------------------------------+
//	|            14 counters of errors (8 bytes each)               |
//	+---------------------------------------------------------------+
type PortCountersExtended struct {
	Resv   uint8
	Port   uint8          // PortSelect; AllPorts: the sum
	Select SelectExtended // bits 31 to 16 are none

	Traffic [8]uint64  // by the bits of CounterSelect
	Errors  [14]uint64 // by the bits of CounterSelect2
}

// Decode reads the attribute in b. It returns false if b is shorter than PortCountersExtendedLen.
func (m *PortCountersExtended) Decode(b []byte) bool {
	if len(b) < PortCountersExtendedLen {
		return false
	}
	m.Resv, m.Port = b[0], b[1]
	m.Select = SelectExtended(binary.BigEndian.Uint16(b[2:])) | SelectExtended(binary.BigEndian.Uint32(b[4:]))<<32
	for i := range m.Traffic {
		m.Traffic[i] = binary.BigEndian.Uint64(b[8+8*i:])
	}
	for i := range m.Errors {
		m.Errors[i] = binary.BigEndian.Uint64(b[72+8*i:])
	}
	return true
}

// Append appends the attribute to b.
func (m *PortCountersExtended) Append(b []byte) []byte {
	b = append(b, m.Resv, m.Port)
	b = binary.BigEndian.AppendUint16(b, uint16(m.Select))
	b = binary.BigEndian.AppendUint32(b, uint32(m.Select>>32))
	for _, c := range m.Traffic {
		b = binary.BigEndian.AppendUint64(b, c)
	}
	for _, c := range m.Errors {
		b = binary.BigEndian.AppendUint64(b, c)
	}
	return b
}
