// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

const (
	// ClassVersion is the version of both classes of subnet management (section 14.2.1.1).
	ClassVersion = 1
	// DataLen is the length of a packet's data in bytes.
	DataLen = 64
	// MaxHops is how many hops a directed route has at most (section 14.2.2).
	MaxHops = 63
	// PathLen is the length of a directed route: entry 0 is unused.
	PathLen = MaxHops + 1
)

// direction is the D bit of a directed route's status: the packet goes back (section 14.2.1.2).
const direction mad.Status = 0x8000

// SMP is a subnet management packet. A packet that is routed by LIDs has zeros where a directed one has its
// LIDs and paths (sections 14.2.1.1 and 14.2.1.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|          Common header (24 bytes); with a directed route:     |
//	|  D bit on top of the status, hop pointer and hop count behind |
//	+---------------------------------------------------------------+
//	|                          M_Key 63:32                          |
//	+---------------------------------------------------------------+
//	|                          M_Key 31:0                           |
//	+-------------------------------+-------------------------------+
//	|            DrSLID             |            DrDLID             |
//	+-------------------------------+-------------------------------+
//	|                      Reserved (28 bytes)                      |
//	+---------------------------------------------------------------+
//	|                        Data (64 bytes)                        |
//	+---------------------------------------------------------------+
//	|                    Initial path (64 bytes)                    |
//	+---------------------------------------------------------------+
//	|                     Return path (64 bytes)                    |
//	+---------------------------------------------------------------+
type SMP struct {
	mad.Header
	MKey    uint64
	DrSLID  uint16
	DrDLID  uint16
	Resv    [28]byte
	Data    [DataLen]byte
	Initial [PathLen]uint8 // ports to leave by, from entry 1 on
	Return  [PathLen]uint8 // ports that the packet came in at
}

// New returns a request that is routed by LIDs.
func New(m mad.Method, a mad.Attribute, modifier uint32, tid uint64) SMP {
	return SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnet, ClassVersion: ClassVersion,
		Method: m, TID: tid, Attribute: a, Modifier: modifier}}
}

// NewDirected returns a request along a directed route from end to end: path are the ports to leave
// by, [MaxHops] of them at most. Further ports are left out.
func NewDirected(m mad.Method, a mad.Attribute, modifier uint32, tid uint64, path []uint8) SMP {
	p := New(m, a, modifier, tid)
	p.Class = mad.ClassSubnetDirected
	p.SetHops(0, uint8(copy(p.Initial[1:], path)))
	p.DrSLID, p.DrDLID = 0xffff, 0xffff
	return p
}

// Directed reports whether the packet has a directed route.
func (p *SMP) Directed() bool { return p.Class == mad.ClassSubnetDirected }

// Returning reports whether a directed route's packet is on the way back.
func (p *SMP) Returning() bool { return p.Header.Status&direction != 0 }

// SetReturning turns a directed route's packet round.
func (p *SMP) SetReturning() { p.Header.Status |= direction }

// Status returns the status without the direction of a directed route.
func (p *SMP) Status() mad.Status {
	if p.Directed() {
		return p.Header.Status &^ direction
	}
	return p.Header.Status
}

// Hops returns the hop pointer and the hop count of a directed route.
func (p *SMP) Hops() (pointer, count uint8) {
	return uint8(p.ClassSpecific >> 8), uint8(p.ClassSpecific)
}

// SetHops sets the hop pointer and the hop count of a directed route.
func (p *SMP) SetHops(pointer, count uint8) { p.ClassSpecific = uint16(pointer)<<8 | uint16(count) }

// Path returns the ports that a directed route leaves by, and nil if it has more than MaxHops.
func (p *SMP) Path() []uint8 {
	if _, count := p.Hops(); p.Directed() && count <= MaxHops {
		return p.Initial[1 : 1+int(count)]
	}
	return nil
}

// Decode reads the packet in b. It returns false if b is shorter than mad.Size.
func (p *SMP) Decode(b []byte) bool {
	if len(b) < mad.Size {
		return false
	}
	p.Header.Decode(b)
	p.MKey = binary.BigEndian.Uint64(b[24:])
	p.DrSLID = binary.BigEndian.Uint16(b[32:])
	p.DrDLID = binary.BigEndian.Uint16(b[34:])
	p.Resv = [28]byte(b[36:])
	p.Data = [DataLen]byte(b[64:])
	p.Initial = [PathLen]uint8(b[128:])
	p.Return = [PathLen]uint8(b[192:])
	return true
}

// Append appends the packet to b.
func (p *SMP) Append(b []byte) []byte {
	b = p.Header.Append(b)
	b = binary.BigEndian.AppendUint64(b, p.MKey)
	b = binary.BigEndian.AppendUint16(b, p.DrSLID)
	b = binary.BigEndian.AppendUint16(b, p.DrDLID)
	b = append(b, p.Resv[:]...)
	b = append(b, p.Data[:]...)
	b = append(b, p.Initial[:]...)
	return append(b, p.Return[:]...)
}
