// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ClassPortInfoLen is the length of a ClassPortInfo in bytes.
const ClassPortInfoLen = 72

// Bits of ClassPortInfo:CapabilityMask in all classes; bits from 8 on are a class's own (section
// 13.4.8.1).
const (
	CapTrap            uint16 = 1 << 0 // the agent sends traps
	CapGetSetNotice    uint16 = 1 << 1 // it has Get and Set of Notice
	CapCapabilityMask2 uint16 = 1 << 2
)

// Address is the address of an agent, or of the destination of its traps.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        GID (16 bytes)                         |
//	+---------------+-------+---------------------------------------+
//	| Traffic class |  SL   |              Flow label               |
//	+---------------+-------+-------+-------------------------------+
//	|              LID              |             P_Key             |
//	+---------------+---------------+-------------------------------+
//	|   Hop limit   |                  Queue pair                   |
//	+---------------+-----------------------------------------------+
//	|                             Q_Key                             |
//	+---------------------------------------------------------------+
type Address struct {
	GID          ib.GID
	TrafficClass uint8
	SL           uint8  // 4 bits
	FlowLabel    uint32 // 20 bits
	LID          uint16 // 0: there is no redirection, or no trap handler
	PKey         ib.PKey
	HopLimit     uint8 // of traps; reserved in a redirection
	QPN          ib.QPN
	QKey         ib.QKey
}

const addressLen = 32

func (a *Address) decode(b []byte) {
	a.GID = ib.GID(b)
	w := binary.BigEndian.Uint32(b[16:])
	a.TrafficClass, a.SL, a.FlowLabel = uint8(w>>24), uint8(w>>20)&0xf, w&0xf_ffff
	a.LID = binary.BigEndian.Uint16(b[20:])
	a.PKey = ib.PKey(binary.BigEndian.Uint16(b[22:]))
	w = binary.BigEndian.Uint32(b[24:])
	a.HopLimit, a.QPN = uint8(w>>24), ib.QPN(w&0xff_ffff)
	a.QKey = ib.QKey(binary.BigEndian.Uint32(b[28:]))
}

func (a *Address) append(b []byte) []byte {
	b = append(b, a.GID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(a.TrafficClass)<<24|uint32(a.SL&0xf)<<20|a.FlowLabel&0xf_ffff)
	b = binary.BigEndian.AppendUint16(b, a.LID)
	b = binary.BigEndian.AppendUint16(b, uint16(a.PKey))
	b = binary.BigEndian.AppendUint32(b, uint32(a.HopLimit)<<24|uint32(a.QPN)&0xff_ffff)
	return binary.BigEndian.AppendUint32(b, uint32(a.QKey))
}

// ClassPortInfo is the capabilities and the location of an agent (section 13.4.8.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|  BaseVersion  | ClassVersion  |        CapabilityMask         |
//	+---------------+---------------+---------------------+---------+
//	|                   CapabilityMask2                   |RespTime |
//	+-----------------------------------------------------+---------+
//	|                 Redirection (32 bytes)                        |
//	+---------------------------------------------------------------+
//	|                 Traps (32 bytes)                              |
//	+---------------------------------------------------------------+
type ClassPortInfo struct {
	BaseVersion  uint8
	ClassVersion uint8
	CapMask      uint16
	CapMask2     uint32  // 27 bits
	RespTime     Timeout // the longest that the agent takes to respond
	Redirect     Address
	Trap         Address
}

// Decode reads the attribute in b. It returns false if b is shorter than ClassPortInfoLen.
func (m *ClassPortInfo) Decode(b []byte) bool {
	if len(b) < ClassPortInfoLen {
		return false
	}
	m.BaseVersion, m.ClassVersion = b[0], b[1]
	m.CapMask = binary.BigEndian.Uint16(b[2:])
	w := binary.BigEndian.Uint32(b[4:])
	m.CapMask2, m.RespTime = w>>5, Timeout(w&31)
	m.Redirect.decode(b[8:])
	m.Trap.decode(b[8+addressLen:])
	return true
}

// Append appends the attribute to b.
func (m *ClassPortInfo) Append(b []byte) []byte {
	b = append(b, m.BaseVersion, m.ClassVersion)
	b = binary.BigEndian.AppendUint16(b, m.CapMask)
	b = binary.BigEndian.AppendUint32(b, m.CapMask2<<5|uint32(m.RespTime)&31)
	b = m.Redirect.append(b)
	return m.Trap.append(b)
}
