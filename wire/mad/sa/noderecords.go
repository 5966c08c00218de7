// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// Lengths of records in bytes, without padding.
const (
	NodeRecordLen       = 4 + smp.NodeInfoLen + smp.NodeDescriptionLen
	PortInfoRecordLen   = 4 + smp.PortInfoLen
	SwitchInfoRecordLen = 4 + smp.SwitchInfoLen
	SMInfoRecordLen     = 4 + smp.SMInfoLen
	LinkRecordLen       = 6
	GUIDInfoRecordLen   = 8 + smp.TableLen
	LinearRecordLen     = 8 + smp.TableLen
	MulticastRecordLen  = 8 + smp.TableLen
	PKeyRecordLen       = 8 + smp.TableLen
	VLArbRecordLen      = 8 + smp.TableLen
	SLtoVLRecordLen     = 8 + smp.SLtoVLLen
)

// NodeRecord describes the node of an adapter's port, or a switch (section 15.2.5.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|              LID              |             Resv              |
//	+-------------------------------+-------------------------------+
//	|                    NodeInfo (40 bytes)                        |
//	+---------------------------------------------------------------+
//	|                NodeDescription (64 bytes)                     |
//	+---------------------------------------------------------------+
type NodeRecord struct {
	LID         uint16
	Resv        uint16
	Info        smp.NodeInfo
	Description smp.NodeDescription
}

// Decode reads the record in b. It returns false if b is shorter than NodeRecordLen.
func (r *NodeRecord) Decode(b []byte) bool {
	if len(b) < NodeRecordLen {
		return false
	}
	r.LID, r.Resv = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return r.Info.Decode(b[4:]) && r.Description.Decode(b[4+smp.NodeInfoLen:])
}

// Append appends the record to b.
func (r *NodeRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	b = binary.BigEndian.AppendUint16(b, r.Resv)
	return r.Description.Append(r.Info.Append(b))
}

// PortInfoRecord is a port of an adapter or of a switch (section 15.2.5.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+---------------+---------------+
//	|          EndportLID           |    PortNum    |    Options    |
//	+-------------------------------+---------------+---------------+
//	|                    PortInfo (64 bytes)                        |
//	+---------------------------------------------------------------+
type PortInfoRecord struct {
	LID     uint16 // of a switch, that of its port 0
	Port    uint8
	Options uint8
	Info    smp.PortInfo
}

// Decode reads the record in b. It returns false if b is shorter than PortInfoRecordLen.
func (r *PortInfoRecord) Decode(b []byte) bool {
	if len(b) < PortInfoRecordLen {
		return false
	}
	r.LID, r.Port, r.Options = binary.BigEndian.Uint16(b), b[2], b[3]
	return r.Info.Decode(b[4:])
}

// Append appends the record to b.
func (r *PortInfoRecord) Append(b []byte) []byte {
	return r.Info.Append(append(binary.BigEndian.AppendUint16(b, r.LID), r.Port, r.Options))
}

// SwitchInfoRecord is a switch (section 15.2.5.5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|              LID              |             Resv              |
//	+-------------------------------+-------------------------------+
//	|                   SwitchInfo (20 bytes)                       |
//	+---------------------------------------------------------------+
type SwitchInfoRecord struct {
	LID  uint16
	Resv uint16
	Info smp.SwitchInfo
}

// Decode reads the record in b. It returns false if b is shorter than SwitchInfoRecordLen.
func (r *SwitchInfoRecord) Decode(b []byte) bool {
	if len(b) < SwitchInfoRecordLen {
		return false
	}
	r.LID, r.Resv = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return r.Info.Decode(b[4:])
}

// Append appends the record to b.
func (r *SwitchInfoRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	return r.Info.Append(binary.BigEndian.AppendUint16(b, r.Resv))
}

// SMInfoRecord is a subnet manager (section 15.2.5.10).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|              LID              |             Resv              |
//	+-------------------------------+-------------------------------+
//	|                     SMInfo (21 bytes)                         |
//	+---------------------------------------------------------------+
type SMInfoRecord struct {
	LID  uint16
	Resv uint16
	Info smp.SMInfo
}

// Decode reads the record in b. It returns false if b is shorter than SMInfoRecordLen.
func (r *SMInfoRecord) Decode(b []byte) bool {
	if len(b) < SMInfoRecordLen {
		return false
	}
	r.LID, r.Resv = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return r.Info.Decode(b[4:])
}

// Append appends the record to b.
func (r *SMInfoRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	return r.Info.Append(binary.BigEndian.AppendUint16(b, r.Resv))
}

// LinkRecord is a cable, from one of its ends (section 15.2.5.13).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+---------------+---------------+
//	|            FromLID            |   FromPort    |    ToPort     |
//	+-------------------------------+---------------+---------------+
//	|             ToLID             |
//	+-------------------------------+
type LinkRecord struct {
	FromLID  uint16
	FromPort uint8
	ToPort   uint8
	ToLID    uint16
}

// Decode reads the record in b. It returns false if b is shorter than LinkRecordLen.
func (r *LinkRecord) Decode(b []byte) bool {
	if len(b) < LinkRecordLen {
		return false
	}
	r.FromLID, r.FromPort, r.ToPort, r.ToLID = binary.BigEndian.Uint16(b), b[2], b[3], binary.BigEndian.Uint16(b[4:])
	return true
}

// Append appends the record to b.
func (r *LinkRecord) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, r.FromLID), r.FromPort, r.ToPort)
	return binary.BigEndian.AppendUint16(b, r.ToLID)
}

// GUIDInfoRecord is a block of a port's interface ids (section 15.2.5.18).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+---------------+---------------+
//	|              LID              |   BlockNum    |     Resv      |
//	+-------------------------------+---------------+---------------+
//	|                             Resv                              |
//	+---------------------------------------------------------------+
//	|                    GUIDInfo (64 bytes)                        |
//	+---------------------------------------------------------------+
type GUIDInfoRecord struct {
	LID   uint16
	Block uint8
	Resv  uint8
	Resv4 uint32
	GUIDs smp.GUIDInfo
}

// Decode reads the record in b. It returns false if b is shorter than GUIDInfoRecordLen.
func (r *GUIDInfoRecord) Decode(b []byte) bool {
	if len(b) < GUIDInfoRecordLen {
		return false
	}
	r.LID, r.Block, r.Resv, r.Resv4 = binary.BigEndian.Uint16(b), b[2], b[3], binary.BigEndian.Uint32(b[4:])
	return r.GUIDs.Decode(b[8:])
}

// Append appends the record to b.
func (r *GUIDInfoRecord) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, r.LID), r.Block, r.Resv)
	return r.GUIDs.Append(binary.BigEndian.AppendUint32(b, r.Resv4))
}

// LinearRecord is a block of a switch's linear forwarding table (section 15.2.5.6).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|              LID              |           BlockNum            |
//	+-------------------------------+-------------------------------+
//	|                             Resv                              |
//	+---------------------------------------------------------------+
//	|              Linear forwarding table (64 bytes)               |
//	+---------------------------------------------------------------+
type LinearRecord struct {
	LID   uint16
	Block uint16
	Resv  uint32
	Table smp.LinearTable
}

// Decode reads the record in b. It returns false if b is shorter than LinearRecordLen.
func (r *LinearRecord) Decode(b []byte) bool {
	if len(b) < LinearRecordLen {
		return false
	}
	r.LID, r.Block, r.Resv = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:])
	return r.Table.Decode(b[8:])
}

// Append appends the record to b.
func (r *LinearRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	b = binary.BigEndian.AppendUint16(b, r.Block)
	return r.Table.Append(binary.BigEndian.AppendUint32(b, r.Resv))
}

// MulticastRecord is a block of a switch's multicast forwarding table (section 15.2.5.8).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------+-----+-----------------+
//	|              LID              |Positn.|Resv |    BlockNum     |
//	+-------------------------------+-------+-----+-----------------+
//	|                             Resv                              |
//	+---------------------------------------------------------------+
//	|             Multicast forwarding table (64 bytes)             |
//	+---------------------------------------------------------------+
type MulticastRecord struct {
	LID      uint16
	Position uint8  // 4 bits: ports from 16 × Position on
	Resv     uint8  // 3 bits
	Block    uint16 // 9 bits: LIDs from 0xc000 + 32 × Block on
	Resv4    uint32
	Table    smp.MulticastTable
}

// Decode reads the record in b. It returns false if b is shorter than MulticastRecordLen.
func (r *MulticastRecord) Decode(b []byte) bool {
	if len(b) < MulticastRecordLen {
		return false
	}
	w := binary.BigEndian.Uint16(b[2:])
	r.LID, r.Position, r.Resv, r.Block = binary.BigEndian.Uint16(b), uint8(w>>12), uint8(w>>9)&7, w&0x1ff
	r.Resv4 = binary.BigEndian.Uint32(b[4:])
	return r.Table.Decode(b[8:])
}

// Append appends the record to b.
func (r *MulticastRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Position)<<12|uint16(r.Resv&7)<<9|r.Block&0x1ff)
	return r.Table.Append(binary.BigEndian.AppendUint32(b, r.Resv4))
}

// PKeyRecord is a block of a port's partition table (section 15.2.5.11).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|              LID              |           BlockNum            |
//	+---------------+---------------+-------------------------------+
//	|    PortNum    |                     Resv                      |
//	+---------------+-----------------------------------------------+
//	|                  P_KeyTable (64 bytes)                        |
//	+---------------------------------------------------------------+
type PKeyRecord struct {
	LID   uint16
	Block uint16
	Port  uint8 // of a switch
	Resv  uint32
	PKeys smp.PKeyTable
}

// Decode reads the record in b. It returns false if b is shorter than PKeyRecordLen.
func (r *PKeyRecord) Decode(b []byte) bool {
	if len(b) < PKeyRecordLen {
		return false
	}
	w := binary.BigEndian.Uint32(b[4:])
	r.LID, r.Block, r.Port, r.Resv = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), uint8(w>>24),
		w&0xff_ffff
	return r.PKeys.Decode(b[8:])
}

// Append appends the record to b.
func (r *PKeyRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, r.LID)
	b = binary.BigEndian.AppendUint16(b, r.Block)
	return r.PKeys.Append(binary.BigEndian.AppendUint32(b, uint32(r.Port)<<24|r.Resv&0xff_ffff))
}

// VLArbRecord is a part of a port's tables of VL arbitration (section 15.2.5.9).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+---------------+---------------+
//	|              LID              | OutputPortNum |   BlockNum    |
//	+-------------------------------+---------------+---------------+
//	|                             Resv                              |
//	+---------------------------------------------------------------+
//	|                VLArbitration (64 bytes)                       |
//	+---------------------------------------------------------------+
type VLArbRecord struct {
	LID   uint16
	Port  uint8 // of a switch
	Block uint8 // see [smp.ArbLow]
	Resv  uint32
	Table smp.VLArbitration
}

// Decode reads the record in b. It returns false if b is shorter than VLArbRecordLen.
func (r *VLArbRecord) Decode(b []byte) bool {
	if len(b) < VLArbRecordLen {
		return false
	}
	r.LID, r.Port, r.Block, r.Resv = binary.BigEndian.Uint16(b), b[2], b[3], binary.BigEndian.Uint32(b[4:])
	return r.Table.Decode(b[8:])
}

// Append appends the record to b.
func (r *VLArbRecord) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, r.LID), r.Port, r.Block)
	return r.Table.Append(binary.BigEndian.AppendUint32(b, r.Resv))
}

// SLtoVLRecord is a row of a port's table of lanes by service level (section 15.2.5.4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+---------------+---------------+
//	|              LID              | InputPortNum  | OutputPortNum |
//	+-------------------------------+---------------+---------------+
//	|                             Resv                              |
//	+---------------------------------------------------------------+
//	|             SLtoVLMappingTable (8 bytes)                      |
//	+---------------------------------------------------------------+
type SLtoVLRecord struct {
	LID     uint16
	In, Out uint8 // of a switch
	Resv    uint32
	Table   smp.SLtoVL
}

// Decode reads the record in b. It returns false if b is shorter than SLtoVLRecordLen.
func (r *SLtoVLRecord) Decode(b []byte) bool {
	if len(b) < SLtoVLRecordLen {
		return false
	}
	r.LID, r.In, r.Out, r.Resv = binary.BigEndian.Uint16(b), b[2], b[3], binary.BigEndian.Uint32(b[4:])
	return r.Table.Decode(b[8:])
}

// Append appends the record to b.
func (r *SLtoVLRecord) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, r.LID), r.In, r.Out)
	return r.Table.Append(binary.BigEndian.AppendUint32(b, r.Resv))
}
