// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"
	"strings"
)

// Lengths of attributes in bytes.
const (
	NodeInfoLen        = 40
	NodeDescriptionLen = 64
)

// NodeInfo describes a node; it is read-only (section 14.2.5.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+---------------+---------------+
//	|  BaseVersion  | ClassVersion  |   NodeType    |   NumPorts    |
//	+---------------+---------------+---------------+---------------+
//	|                    SystemImageGUID (8 bytes)                  |
//	+---------------------------------------------------------------+
//	|                       NodeGUID (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                       PortGUID (8 bytes)                      |
//	+-------------------------------+-------------------------------+
//	|         PartitionCap          |           DeviceID            |
//	+-------------------------------+-------------------------------+
//	|                           Revision                            |
//	+---------------+-----------------------------------------------+
//	| LocalPortNum  |                   VendorID                    |
//	+---------------+-----------------------------------------------+
type NodeInfo struct {
	BaseVersion  uint8
	ClassVersion uint8
	NodeType     uint8 // 1: channel adapter, 2: switch, 3: router
	NumPorts     uint8 // external ones
	SystemGUID   uint64
	NodeGUID     uint64
	PortGUID     uint64 // of the port that the request came in at; of a switch, that of port 0
	PartitionCap uint16 // rows of the partition table of each port of an adapter, or of a switch's port 0
	DeviceID     uint16
	Revision     uint32
	LocalPort    uint8  // the port that the request came in at
	VendorID     uint32 // 24 bits
}

// Decode reads the attribute in b. It returns false if b is shorter than NodeInfoLen.
func (m *NodeInfo) Decode(b []byte) bool {
	if len(b) < NodeInfoLen {
		return false
	}
	m.BaseVersion, m.ClassVersion, m.NodeType, m.NumPorts = b[0], b[1], b[2], b[3]
	m.SystemGUID = binary.BigEndian.Uint64(b[4:])
	m.NodeGUID = binary.BigEndian.Uint64(b[12:])
	m.PortGUID = binary.BigEndian.Uint64(b[20:])
	m.PartitionCap = binary.BigEndian.Uint16(b[28:])
	m.DeviceID = binary.BigEndian.Uint16(b[30:])
	m.Revision = binary.BigEndian.Uint32(b[32:])
	w := binary.BigEndian.Uint32(b[36:])
	m.LocalPort, m.VendorID = uint8(w>>24), w&0xff_ffff
	return true
}

// Append appends the attribute to b.
func (m *NodeInfo) Append(b []byte) []byte {
	b = append(b, m.BaseVersion, m.ClassVersion, m.NodeType, m.NumPorts)
	b = binary.BigEndian.AppendUint64(b, m.SystemGUID)
	b = binary.BigEndian.AppendUint64(b, m.NodeGUID)
	b = binary.BigEndian.AppendUint64(b, m.PortGUID)
	b = binary.BigEndian.AppendUint16(b, m.PartitionCap)
	b = binary.BigEndian.AppendUint16(b, m.DeviceID)
	b = binary.BigEndian.AppendUint32(b, m.Revision)
	return binary.BigEndian.AppendUint32(b, uint32(m.LocalPort)<<24|m.VendorID&0xff_ffff)
}

// NodeDescription is a text about a node, filled up with zeros (section 14.2.5.2).
type NodeDescription [NodeDescriptionLen]byte

// NewNodeDescription returns the attribute of a text. A text that is too long is cut.
func NewNodeDescription(text string) (m NodeDescription) {
	copy(m[:], text)
	return m
}

// String returns the text.
func (m *NodeDescription) String() string { return strings.TrimRight(string(m[:]), "\x00") }

// Decode reads the attribute in b. It returns false if b is shorter than NodeDescriptionLen.
func (m *NodeDescription) Decode(b []byte) bool {
	if len(b) < NodeDescriptionLen {
		return false
	}
	*m = NodeDescription(b)
	return true
}

// Append appends the attribute to b.
func (m *NodeDescription) Append(b []byte) []byte { return append(b, m[:]...) }
