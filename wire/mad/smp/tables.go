// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Rows of tables in one packet, and lengths of attributes in bytes.
const (
	GUIDsPerBlock     = 8
	PKeysPerBlock     = 32
	ArbPerBlock       = 32
	LinearPerBlock    = 64
	MulticastPerBlock = 32
	TableLen          = 64 // of all tables but:
	SLtoVLLen         = 8
)

// GUIDInfo is a block of the interface ids of a port's GIDs; the modifier is the block's number
// (section 14.2.5.5).
type GUIDInfo [GUIDsPerBlock]uint64

// Decode reads the attribute in b. It returns false if b is shorter than TableLen.
func (m *GUIDInfo) Decode(b []byte) bool {
	if len(b) < TableLen {
		return false
	}
	for i := range m {
		m[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return true
}

// Append appends the attribute to b.
func (m *GUIDInfo) Append(b []byte) []byte {
	for _, g := range m {
		b = binary.BigEndian.AppendUint64(b, g)
	}
	return b
}

// PKeyTable is a block of a port's partition table (section 14.2.5.7). The modifier has the block's
// number in the low half and a switch's port in the high half: see [PKeyModifier].
type PKeyTable [PKeysPerBlock]ib.PKey

// PKeyModifier returns the modifier of a PKeyTable; port is of a switch, and 0 for adapters.
func PKeyModifier(port uint8, block uint16) uint32 { return uint32(port)<<16 | uint32(block) }

// Decode reads the attribute in b. It returns false if b is shorter than TableLen.
func (m *PKeyTable) Decode(b []byte) bool {
	if len(b) < TableLen {
		return false
	}
	for i := range m {
		m[i] = ib.PKey(binary.BigEndian.Uint16(b[2*i:]))
	}
	return true
}

// Append appends the attribute to b.
func (m *PKeyTable) Append(b []byte) []byte {
	for _, k := range m {
		b = binary.BigEndian.AppendUint16(b, uint16(k))
	}
	return b
}

// SLtoVL is a row of a port's table of virtual lanes by service levels, 4 bits each (section 14.2.5.8).
// The modifier has a switch's input and output port: see [SLtoVLModifier].
type SLtoVL [16]uint8

// SLtoVLModifier returns the modifier of an SLtoVL of a switch; that of adapters is 0.
func SLtoVLModifier(in, out uint8) uint32 { return uint32(in)<<8 | uint32(out) }

// Decode reads the attribute in b. It returns false if b is shorter than SLtoVLLen.
func (m *SLtoVL) Decode(b []byte) bool {
	if len(b) < SLtoVLLen {
		return false
	}
	for i := range SLtoVLLen {
		m[2*i], m[2*i+1] = b[i]>>4, b[i]&0xf
	}
	return true
}

// Append appends the attribute to b.
func (m *SLtoVL) Append(b []byte) []byte {
	for i := range SLtoVLLen {
		b = append(b, m[2*i]<<4|m[2*i+1]&0xf)
	}
	return b
}

// ArbEntry is a row of a VL arbitration table. Weight counts 64-byte units; 0: the row is skipped
// (section 7.6.9.2.1).
type ArbEntry struct {
	VL     uint8 // low 4 bits; the bits above are reserved
	Weight uint8
}

// Parts of the VL arbitration tables, by 32 rows.
const (
	ArbLow       = 1 // the lower half of the low-priority table
	ArbLowUpper  = 2
	ArbHigh      = 3
	ArbHighUpper = 4
)

// VLArbitration is a part of a port's VL arbitration tables (section 14.2.5.9). The modifier has the
// part, [ArbLow] and so on, in the high half and a switch's port in the low half: see
// [VLArbitrationModifier].
type VLArbitration [ArbPerBlock]ArbEntry

// VLArbitrationModifier returns the modifier of a VLArbitration; port is of a switch, and 0 for
// adapters.
func VLArbitrationModifier(part uint16, port uint8) uint32 { return uint32(part)<<16 | uint32(port) }

// Decode reads the attribute in b. It returns false if b is shorter than TableLen.
func (m *VLArbitration) Decode(b []byte) bool {
	if len(b) < TableLen {
		return false
	}
	for i := range m {
		m[i] = ArbEntry{VL: b[2*i], Weight: b[2*i+1]}
	}
	return true
}

// Append appends the attribute to b.
func (m *VLArbitration) Append(b []byte) []byte {
	for _, e := range m {
		b = append(b, e.VL, e.Weight)
	}
	return b
}

// LinearTable is a block of a switch's linear forwarding table: the output ports of LIDs from
// 64 × modifier on, 255 for none (section 14.2.5.10).
type LinearTable [LinearPerBlock]uint8

// Decode reads the attribute in b. It returns false if b is shorter than TableLen.
func (m *LinearTable) Decode(b []byte) bool {
	if len(b) < TableLen {
		return false
	}
	*m = LinearTable(b)
	return true
}

// Append appends the attribute to b.
func (m *LinearTable) Append(b []byte) []byte { return append(b, m[:]...) }

// MulticastTable is a block of a switch's multicast forwarding table: for each of 32 LIDs, which of 16
// ports it goes to (section 14.2.5.12). The modifier selects the LIDs and the ports: see
// [MulticastModifier].
type MulticastTable [MulticastPerBlock]uint16

// MulticastModifier returns the modifier of a MulticastTable: its LIDs begin at 0xc000 + 32 × block, block
// below 512, and bit 0 of a mask is port 16 × position.
func MulticastModifier(position uint8, block uint16) uint32 {
	return uint32(position)<<28 | uint32(block&0x1ff)
}

// Decode reads the attribute in b. It returns false if b is shorter than TableLen.
func (m *MulticastTable) Decode(b []byte) bool {
	if len(b) < TableLen {
		return false
	}
	for i := range m {
		m[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	return true
}

// Append appends the attribute to b.
func (m *MulticastTable) Append(b []byte) []byte {
	for _, p := range m {
		b = binary.BigEndian.AppendUint16(b, p)
	}
	return b
}
