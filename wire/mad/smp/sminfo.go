// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"
	"fmt"
)

// SMInfoLen is the length of an SMInfo in bytes.
const SMInfoLen = 21

// SMState is the state of a subnet manager (section 14.4.1).
type SMState uint8

// The states of subnet managers.
const (
	SMNotActive   SMState = 0
	SMDiscovering SMState = 1
	SMStandby     SMState = 2
	SMMaster      SMState = 3
)

// String returns the state in words.
func (s SMState) String() string {
	switch s {
	case SMNotActive:
		return "not active"
	case SMDiscovering:
		return "discovering"
	case SMStandby:
		return "standby"
	case SMMaster:
		return "master"
	}
	return fmt.Sprintf("reserved state %d", uint8(s))
}

// The requests of a Set of SMInfo to a manager, in the modifier (section 14.2.5.13).
const (
	SMHandover    uint32 = 1
	SMAcknowledge uint32 = 2
	SMDisable     uint32 = 3
	SMStandBy     uint32 = 4
	SMDiscover    uint32 = 5
)

// SMInfo describes a subnet manager (section 14.2.5.13).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                         GUID (8 bytes)                        |
//	+---------------------------------------------------------------+
//	|                        SM_Key (8 bytes)                       |
//	+---------------------------------------------------------------+
//	|                           ActCount                            |
//	+-------+-------+-----------------------------------------------+
//	|Priorit| State |
//	+-------+-------+
type SMInfo struct {
	GUID     uint64 // of the port that the manager is at
	SMKey    uint64 // 0, unless the requester has proved that it is trusted
	ActCount uint32 // grows while the manager lives
	Priority uint8  // 4 bits
	State    SMState
}

// Decode reads the attribute in b. It returns false if b is shorter than SMInfoLen.
func (m *SMInfo) Decode(b []byte) bool {
	if len(b) < SMInfoLen {
		return false
	}
	m.GUID, m.SMKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	m.ActCount = binary.BigEndian.Uint32(b[16:])
	m.Priority, m.State = b[20]>>4, SMState(b[20]&0xf)
	return true
}

// Append appends the attribute to b.
func (m *SMInfo) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.GUID)
	b = binary.BigEndian.AppendUint64(b, m.SMKey)
	b = binary.BigEndian.AppendUint32(b, m.ActCount)
	return append(b, m.Priority<<4|uint8(m.State)&0xf)
}
