// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"
	"fmt"
)

// Lengths of datagrams in bytes (section 13.4.2).
const (
	Size      = 256              // a whole datagram
	HeaderLen = 24               // the header of each
	DataLen   = Size - HeaderLen // a message of communication management, section 12.6
)

// Class is a management class (section 13.4.4).
type Class uint8

// The management classes that are used here. The classes of subnet management have queue pair 0 to
// themselves; all others use queue pair 1.
const (
	ClassSubnet         Class = 0x01 // subnet management, routed by LIDs (section 14.2)
	ClassPerf           Class = 0x04 // performance management (section 16.1)
	ClassCM             Class = 0x07 // communication management (section 16.7)
	ClassSubnetDirected Class = 0x81 // subnet management by directed routes (section 14.2)
)

// Subnet reports whether the class is one of subnet management.
func (c Class) Subnet() bool { return c == ClassSubnet || c == ClassSubnetDirected }

// Versions of a datagram of communication management (sections 13.4.2 and 16.7.1).
const (
	BaseVersion    = 1
	ClassCMVersion = 2
)

// Method is the method of a datagram (section 13.4.5).
type Method uint8

// The methods that classes have in common; others are a class's own.
const (
	MethodGet         Method = 0x01
	MethodSet         Method = 0x02
	MethodSend        Method = 0x03 // of every message of chapter 12 (section 16.7.1)
	MethodTrap        Method = 0x05
	MethodReport      Method = 0x06
	MethodTrapRepress Method = 0x07
	MethodGetResp     Method = 0x81 // answers Get and Set
	MethodReportResp  Method = 0x86

	methodResponse = 0x80 // the R bit
)

// Answers reports whether a datagram of the method answers another one and has its transaction ID:
// it is a response, or represses a trap.
func (m Method) Answers() bool { return m&methodResponse != 0 || m == MethodTrapRepress }

// Asks reports whether a datagram of the method is answered by one with its transaction ID. Send does
// not ask: a class may have an order of messages of its own.
func (m Method) Asks() bool { return !m.Answers() && m != MethodSend }

// Attribute names the contents of a datagram (section 16.7.3).
type Attribute uint16

// The attributes of communication management.
const (
	AttrREQ     Attribute = 0x0010 // connection request
	AttrMRA     Attribute = 0x0011 // message receipt acknowledgement
	AttrREJ     Attribute = 0x0012 // reject
	AttrREP     Attribute = 0x0013 // reply to a connection request
	AttrRTU     Attribute = 0x0014 // ready to use
	AttrDREQ    Attribute = 0x0015 // disconnection request
	AttrDREP    Attribute = 0x0016 // reply to a disconnection request
	AttrSIDRREQ Attribute = 0x0017 // service ID resolution request
	AttrSIDRREP Attribute = 0x0018 // service ID resolution response
	AttrLAP     Attribute = 0x0019 // load alternate path
	AttrAPR     Attribute = 0x001a // alternate path response
)

// String returns the message's name in chapter 12.
func (a Attribute) String() string {
	switch a {
	case AttrREQ:
		return "REQ"
	case AttrMRA:
		return "MRA"
	case AttrREJ:
		return "REJ"
	case AttrREP:
		return "REP"
	case AttrRTU:
		return "RTU"
	case AttrDREQ:
		return "DREQ"
	case AttrDREP:
		return "DREP"
	case AttrSIDRREQ:
		return "SIDR_REQ"
	case AttrSIDRREP:
		return "SIDR_REP"
	case AttrLAP:
		return "LAP"
	case AttrAPR:
		return "APR"
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// Header is the header of every datagram (section 13.4.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+---------------+-+-------------+
//	|  BaseVersion  |   MgmtClass   | ClassVersion  |R|   Method    |
//	+---------------+---------------+---------------+-+-------------+
//	|            Status             |         ClassSpecific         |
//	+-------------------------------+-------------------------------+
//	|                      TransactionID 63:32                      |
//	+---------------------------------------------------------------+
//	|                      TransactionID 31:0                       |
//	+-------------------------------+-------------------------------+
//	|          AttributeID          |             Resv18            |
//	+-------------------------------+-------------------------------+
//	|                       AttributeModifier                       |
//	+---------------------------------------------------------------+
type Header struct {
	BaseVersion   uint8
	Class         Class
	ClassVersion  uint8
	Method        Method // with the response bit on top
	Status        Status // of responses; 0 in messages of chapter 12. A directed route has its direction bit on top
	ClassSpecific uint16
	TID           uint64 // transaction ID: all messages of one exchange share it, section 12.6.1
	Attribute     Attribute
	Resv18        uint16
	Modifier      uint32
}

// CMHeader returns the header of a message of communication management.
func CMHeader(a Attribute, tid uint64) Header {
	return Header{BaseVersion: BaseVersion, Class: ClassCM, ClassVersion: ClassCMVersion, Method: MethodSend, TID: tid,
		Attribute: a}
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *Header) Decode(b []byte) bool {
	if len(b) < HeaderLen {
		return false
	}
	h.BaseVersion = b[0]
	h.Class = Class(b[1])
	h.ClassVersion = b[2]
	h.Method = Method(b[3])
	h.Status = Status(binary.BigEndian.Uint16(b[4:]))
	h.ClassSpecific = binary.BigEndian.Uint16(b[6:])
	h.TID = binary.BigEndian.Uint64(b[8:])
	h.Attribute = Attribute(binary.BigEndian.Uint16(b[16:]))
	h.Resv18 = binary.BigEndian.Uint16(b[18:])
	h.Modifier = binary.BigEndian.Uint32(b[20:])
	return true
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	b = append(b, h.BaseVersion, byte(h.Class), h.ClassVersion, byte(h.Method))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Status))
	b = binary.BigEndian.AppendUint16(b, h.ClassSpecific)
	b = binary.BigEndian.AppendUint64(b, h.TID)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Attribute))
	b = binary.BigEndian.AppendUint16(b, h.Resv18)
	return binary.BigEndian.AppendUint32(b, h.Modifier)
}
