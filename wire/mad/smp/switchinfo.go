// SPDX-License-Identifier: Apache-2.0

package smp

import "encoding/binary"

// SwitchInfoLen is the length of a SwitchInfo in bytes.
const SwitchInfoLen = 20

// Abilities of a switch in SwitchInfo:Flags (section 14.2.5.4).
const (
	SwitchEnforcesIn    uint8 = 1 << 7 // InboundEnforcementCap
	SwitchEnforcesOut   uint8 = 1 << 6 // OutboundEnforcementCap
	SwitchFiltersRawIn  uint8 = 1 << 5
	SwitchFiltersRawOut uint8 = 1 << 4
	SwitchEnhancedPort0 uint8 = 1 << 3 // port 0 carries data, as an adapter's does
)

// SwitchInfo holds the capabilities of a switch and its state of forwarding (section 14.2.5.4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|         LinearFDBCap          |         RandomFDBCap          |
//	+-------------------------------+-------------------------------+
//	|        MulticastFDBCap        |         LinearFDBTop          |
//	+---------------+---------------+---------------+---------+-+---+
//	|  DefaultPort  | McastPrimary  |McastNotPrimary|LifeTime |C|Opt|
//	+---------------+---------------+---------------+---------+-+---+
//	|          LIDsPerPort          |    PartitionEnforcementCap    |
//	+---------------+---------------+-------------------------------+
//	|     Flags     |   Reserved    |       MulticastFDBTop         |
//	+---------------+---------------+-------------------------------+
type SwitchInfo struct {
	LinearCap           uint16 // LIDs in the linear forwarding table
	RandomCap           uint16 // 0: there is no random forwarding table
	MulticastCap        uint16 // LIDs in the multicast forwarding table
	LinearTop           uint16
	DefaultPort         uint8 // of LIDs that the random table does not have
	PrimaryMulticast    uint8 // DefaultMulticastPrimaryPort
	NotPrimaryMulticast uint8
	// 5 bits: a packet's time in the switch is 4.096 µs × 2^LifeTime; 20 and above: without end
	LifeTime        uint8
	PortStateChange bool  // set by the switch; a Set with it clears it
	SLtoVLOptions   uint8 // 2 bits: OptimizedSLtoVLMappingProgramming
	LIDsPerPort     uint16
	EnforcementCap  uint16 // rows of the partition table of an external port
	Flags           uint8
	Resv            uint8
	MulticastTop    uint16 // 0: as far as MulticastCap
}

// Decode reads the attribute in b. It returns false if b is shorter than SwitchInfoLen.
func (m *SwitchInfo) Decode(b []byte) bool {
	if len(b) < SwitchInfoLen {
		return false
	}
	m.LinearCap = binary.BigEndian.Uint16(b)
	m.RandomCap = binary.BigEndian.Uint16(b[2:])
	m.MulticastCap = binary.BigEndian.Uint16(b[4:])
	m.LinearTop = binary.BigEndian.Uint16(b[6:])
	m.DefaultPort, m.PrimaryMulticast, m.NotPrimaryMulticast = b[8], b[9], b[10]
	m.LifeTime, m.PortStateChange, m.SLtoVLOptions = b[11]>>3, b[11]&4 != 0, b[11]&3
	m.LIDsPerPort = binary.BigEndian.Uint16(b[12:])
	m.EnforcementCap = binary.BigEndian.Uint16(b[14:])
	m.Flags, m.Resv = b[16], b[17]
	m.MulticastTop = binary.BigEndian.Uint16(b[18:])
	return true
}

// Append appends the attribute to b.
func (m *SwitchInfo) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, m.LinearCap)
	b = binary.BigEndian.AppendUint16(b, m.RandomCap)
	b = binary.BigEndian.AppendUint16(b, m.MulticastCap)
	b = binary.BigEndian.AppendUint16(b, m.LinearTop)
	b = append(b, m.DefaultPort, m.PrimaryMulticast, m.NotPrimaryMulticast,
		m.LifeTime<<3|bit(m.PortStateChange, 2)|m.SLtoVLOptions&3)
	b = binary.BigEndian.AppendUint16(b, m.LIDsPerPort)
	b = binary.BigEndian.AppendUint16(b, m.EnforcementCap)
	b = append(b, m.Flags, m.Resv)
	return binary.BigEndian.AppendUint16(b, m.MulticastTop)
}

// bit returns a byte with bit n set if on.
func bit(on bool, n int) uint8 {
	if on {
		return 1 << n
	}
	return 0
}
