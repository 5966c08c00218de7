// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Class and version of subnet administration (section 15.2.1).
const (
	Class        mad.Class = 0x03
	ClassVersion uint8     = 2
)

// Lengths in bytes (section 15.2.1.1).
const (
	HeaderLen = 56
	DataLen   = mad.Size - HeaderLen
	// SubHeaderLen is the part of the header in each segment that an RMPP payload length counts, in bytes.
	SubHeaderLen = 20
)

// The methods that only this class has (section 15.2.2).
const (
	MethodGetTable      mad.Method = 0x12
	MethodGetTraceTable mad.Method = 0x13
	MethodGetMulti      mad.Method = 0x14
	MethodDelete        mad.Method = 0x15
	MethodGetTableResp  mad.Method = 0x92
	MethodGetMultiResp  mad.Method = 0x94
	MethodDeleteResp    mad.Method = 0x95
)

// Statuses of this class, in the high byte of a status (section 15.2.4).
const (
	StatusNoResources            mad.Status = 0x0100
	StatusInvalid                mad.Status = 0x0200 // the request
	StatusNoRecords              mad.Status = 0x0300
	StatusTooManyRecords         mad.Status = 0x0400 // for Get, which returns one
	StatusInvalidGID             mad.Status = 0x0500
	StatusInsufficientComponents mad.Status = 0x0600
	StatusDenied                 mad.Status = 0x0700
)

var statuses = [...]string{
	StatusNoResources >> 8: "not enough resources", StatusInvalid >> 8: "invalid request",
	StatusNoRecords >> 8:      "no records match",
	StatusTooManyRecords >> 8: "more than one record matches", StatusInvalidGID >> 8: "invalid GID",
	StatusInsufficientComponents >> 8: "components are missing", StatusDenied >> 8: "denied",
}

// StatusText returns a status in words.
func StatusText(s mad.Status) string {
	if s&0xff == 0 && int(s>>8) < len(statuses) && statuses[s>>8] != "" {
		return statuses[s>>8]
	}
	return s.String()
}

// The attributes of this class, beside attributes that all classes share (section 15.2.5).
const (
	AttrNodeRecord       mad.Attribute = 0x0011
	AttrPortInfoRecord   mad.Attribute = 0x0012
	AttrSLtoVLRecord     mad.Attribute = 0x0013
	AttrSwitchInfoRecord mad.Attribute = 0x0014
	AttrLinearRecord     mad.Attribute = 0x0015 // LinearForwardingTableRecord
	AttrMulticastRecord  mad.Attribute = 0x0017 // MulticastForwardingTableRecord
	AttrSMInfoRecord     mad.Attribute = 0x0018
	AttrLinkRecord       mad.Attribute = 0x0020
	AttrGUIDInfoRecord   mad.Attribute = 0x0030
	AttrServiceRecord    mad.Attribute = 0x0031
	AttrPKeyRecord       mad.Attribute = 0x0033 // P_KeyTableRecord
	AttrPathRecord       mad.Attribute = 0x0035
	AttrVLArbRecord      mad.Attribute = 0x0036 // VLArbitrationTableRecord
	AttrMCMemberRecord   mad.Attribute = 0x0038
	AttrInformInfoRecord mad.Attribute = 0x00f3
)

// Name returns an attribute's name in chapter 15.
func Name(a mad.Attribute) string {
	switch a {
	case mad.AttrClassPortInfo:
		return "ClassPortInfo"
	case mad.AttrNotice:
		return "Notice"
	case mad.AttrInformInfo:
		return "InformInfo"
	}
	if l := Layout(a); l != nil {
		return l.name
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// Header is the header of a datagram (section 15.2.1.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                  Common header (24 bytes)                     |
//	+---------------------------------------------------------------+
//	|                      RMPP (12 bytes)                          |
//	+---------------------------------------------------------------+
//	|                      SM_Key (8 bytes)                         |
//	+-------------------------------+-------------------------------+
//	|        AttributeOffset        |           Resv46              |
//	+-------------------------------+-------------------------------+
//	|                  ComponentMask (8 bytes)                      |
//	+---------------------------------------------------------------+
type Header struct {
	mad.Header
	RMPP   RMPP
	SMKey  uint64 // of requests that only the manager's owner may make; else 0
	Offset uint16 // AttributeOffset: how far the records of a table are apart, in units of 8 bytes
	Resv46 uint16
	Mask   uint64 // which components of the query count
}

// NewHeader returns a request's header.
func NewHeader(m mad.Method, a mad.Attribute, tid, mask uint64) Header {
	return Header{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: Class, ClassVersion: ClassVersion,
		Method: m, TID: tid, Attribute: a}, Mask: mask}
}

// Decode reads the header at the start of b. It returns false if b is shorter than HeaderLen.
func (h *Header) Decode(b []byte) bool {
	if len(b) < HeaderLen {
		return false
	}
	h.Header.Decode(b)
	h.RMPP.Decode(b[mad.HeaderLen:])
	h.SMKey = binary.BigEndian.Uint64(b[36:])
	h.Offset, h.Resv46 = binary.BigEndian.Uint16(b[44:]), binary.BigEndian.Uint16(b[46:])
	h.Mask = binary.BigEndian.Uint64(b[48:])
	return true
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	b = h.Header.Append(b)
	b = h.RMPP.Append(b)
	b = binary.BigEndian.AppendUint64(b, h.SMKey)
	b = binary.BigEndian.AppendUint16(b, h.Offset)
	b = binary.BigEndian.AppendUint16(b, h.Resv46)
	return binary.BigEndian.AppendUint64(b, h.Mask)
}

// RMPPLen is the length of an RMPP header in bytes.
const RMPPLen = 12

// RMPPType is the type of a datagram of the reliable multi-packet protocol (section 13.6.2.1).
type RMPPType uint8

const (
	RMPPNone  RMPPType = 0 // one packet, without the protocol
	RMPPData  RMPPType = 1 // a segment
	RMPPAck   RMPPType = 2 // acknowledges segments, and grants a window
	RMPPStop  RMPPType = 3 // the receiver or the sender has run out of something
	RMPPAbort RMPPType = 4 // ends the transfer with an error
)

// RMPPFlags are the flags of an RMPP header: 3 bits (section 13.6.2.1).
type RMPPFlags uint8

const (
	RMPPActive RMPPFlags = 1 << 0 // the datagram takes part in the protocol
	RMPPFirst  RMPPFlags = 1 << 1 // the first segment
	RMPPLast   RMPPFlags = 1 << 2 // the last segment
)

// RMPPVersion is the version of the protocol.
const RMPPVersion = 1

// Statuses of STOP and ABORT (section 13.6.2.1, table of RMPPStatus).
const (
	RMPPOK               uint8 = 0
	RMPPExhausted        uint8 = 1   // STOP: out of resources
	RMPPTooLong          uint8 = 118 // ABORT: the transaction took too long
	RMPPInconsistentLast uint8 = 119
	RMPPInconsistentSize uint8 = 120 // of the first segment
	RMPPBadType          uint8 = 121
	RMPPWindowTooSmall   uint8 = 122 // NewWindowLast before the segment that is acknowledged
	RMPPSegmentTooBig    uint8 = 123
	RMPPIllegalStatus    uint8 = 124
	RMPPBadVersion       uint8 = 125
	RMPPTooManyRetries   uint8 = 126
	RMPPUnspecified      uint8 = 127
)

// RMPP is the header of the reliable multi-packet protocol (section 13.6.2.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+---------+-----+---------------+
//	|    Version    |     Type      |RespTime |Flags|    Status     |
//	+---------------+---------------+---------+-----+---------------+
//	|                Segment number, or reserved                    |
//	+---------------------------------------------------------------+
//	|       Payload length, NewWindowLast, or reserved              |
//	+---------------------------------------------------------------+
type RMPP struct {
	Version  uint8
	Type     RMPPType
	RespTime uint8 // 5 bits: 4.096 µs × 2^RespTime; 31: none is said
	Flags    RMPPFlags
	Status   uint8
	Segment  uint32 // DATA: from 1 on; ACK: the last in order
	// Length of DATA is how many bytes the sub-header and the data of all segments have together, in the
	// first segment (0: not known yet), and how many count in the last one; of an ACK it is NewWindowLast,
	// the last segment that may be sent.
	Length uint32
}

// Decode reads the header at the start of b. It returns false if b is shorter than RMPPLen.
func (h *RMPP) Decode(b []byte) bool {
	if len(b) < RMPPLen {
		return false
	}
	*h = RMPP{b[0], RMPPType(b[1]), b[2] >> 3, RMPPFlags(b[2] & 7), b[3],
		binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}
	return true
}

// Append appends the header to b.
func (h *RMPP) Append(b []byte) []byte {
	b = append(b, h.Version, uint8(h.Type), h.RespTime<<3|uint8(h.Flags&7), h.Status)
	b = binary.BigEndian.AppendUint32(b, h.Segment)
	return binary.BigEndian.AppendUint32(b, h.Length)
}
