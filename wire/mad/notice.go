// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Lengths of a Notice in bytes, as subnet management has it and without the issuer's GID that follows
// in reports of other classes, and of the details of its trap.
const (
	NoticeLen        = 64
	NoticeDetailsLen = 54
)

// NoticeType is how urgent a notice is: 7 bits (section 13.4.8.2).
type NoticeType uint8

const (
	NoticeFatal    NoticeType = 0    // fatal
	NoticeUrgent   NoticeType = 1    // urgent
	NoticeSecurity NoticeType = 2    // a security violation
	NoticeSubnet   NoticeType = 3    // subnet management
	NoticeInfo     NoticeType = 4    // for information
	NoticeEmpty    NoticeType = 0x7f // there is none
)

// Trap is the number of a generic trap (section 14.2.5.1).
type Trap uint16

// The traps of subnet management. Traps up to 67 are the administrator's.
const (
	TrapInService     Trap = 64  // a GID is in service
	TrapOutOfService  Trap = 65  // a GID has gone
	TrapGroupCreated  Trap = 66  // a multicast group
	TrapGroupDeleted  Trap = 67  //
	TrapLinkState     Trap = 128 // a switch's port has changed its state
	TrapLinkIntegrity Trap = 129 // local link integrity errors reached the threshold
	TrapBufferOverrun Trap = 130 // excessive buffer overruns
	TrapFlowControl   Trap = 131 // the flow-control watchdog has expired
	TrapLocalChanges  Trap = 144 // capabilities, description, enabled widths and speeds, or a manager's priority
	TrapSystemGUID    Trap = 145
	TrapMKey          Trap = 256 // violations
	TrapPKey          Trap = 257
	TrapQKey          Trap = 258
	TrapSwitchPKey    Trap = 259 // at an external port of a switch
)

// Producers of generic notices (section 13.4.8.2).
const (
	ProducerCA           uint32 = 1
	ProducerSwitch       uint32 = 2
	ProducerRouter       uint32 = 3
	ProducerClassManager uint32 = 4
)

// Notice describes an event; traps and reports carry it (section 13.4.8.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-------------+-----------------------------------------------+
//	|G|    Type     |        Producer type, or the vendor's ID      |
//	+-+-------------+---------------+-------------------------------+
//	|  Trap number, or device ID    |          Issuer LID           |
//	+-+-----------------------------+-------------------------------+
//	|T|        Notice count         |       Details (54 bytes)      |
//	+-+-----------------------------+-------------------------------+
type Notice struct {
	Generic  bool
	Type     NoticeType // 7 bits
	Producer uint32     // 24 bits; the vendor's ID unless Generic
	Trap     Trap       // the vendor's device ID unless Generic
	Issuer   uint16     // LID
	Toggle   bool       // alternates with each notice that is put in a queue
	Count    uint16     // 15 bits: how many are in the queue
	Details  [NoticeDetailsLen]byte
}

// Decode reads the notice in b. It returns false if b is shorter than NoticeLen.
func (m *Notice) Decode(b []byte) bool {
	if len(b) < NoticeLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	m.Generic, m.Type, m.Producer = w>>31 != 0, NoticeType(w>>24)&0x7f, w&0xff_ffff
	m.Trap = Trap(binary.BigEndian.Uint16(b[4:]))
	m.Issuer = binary.BigEndian.Uint16(b[6:])
	c := binary.BigEndian.Uint16(b[8:])
	m.Toggle, m.Count = c>>15 != 0, c&0x7fff
	m.Details = [NoticeDetailsLen]byte(b[10:])
	return true
}

// Append appends the notice to b.
func (m *Notice) Append(b []byte) []byte {
	w, c := uint32(m.Type&0x7f)<<24|m.Producer&0xff_ffff, m.Count&0x7fff
	if m.Generic {
		w |= 1 << 31
	}
	if m.Toggle {
		c |= 1 << 15
	}
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint16(b, uint16(m.Trap))
	b = binary.BigEndian.AppendUint16(b, m.Issuer)
	b = binary.BigEndian.AppendUint16(b, c)
	return append(b, m.Details[:]...)
}

// GIDDetails are the details of traps 64 to 67: behind 6 reserved bytes, the GID that came or went
// (section 14.2.5.1).
type GIDDetails struct{ GID ib.GID }

// Decode reads the details of a notice.
func (d *GIDDetails) Decode(b *[NoticeDetailsLen]byte) { d.GID = ib.GID(b[6:]) }

// Encode writes the details of a notice, all of them.
func (d *GIDDetails) Encode(b *[NoticeDetailsLen]byte) {
	clear(b[:])
	copy(b[6:], d.GID[:])
}

// LinkStateDetails are the details of trap 128: the switch's LID.
type LinkStateDetails struct{ LID uint16 }

// Decode reads the details of a notice.
func (d *LinkStateDetails) Decode(b *[NoticeDetailsLen]byte) { d.LID = binary.BigEndian.Uint16(b[:]) }

// Encode writes the details of a notice, all of them.
func (d *LinkStateDetails) Encode(b *[NoticeDetailsLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[:], d.LID)
}

// PortDetails are the details of traps 129, 130 and 131: the port of which a counter reached its
// threshold, behind 2 reserved bytes.
type PortDetails struct {
	LID  uint16
	Port uint8
}

// Decode reads the details of a notice.
func (d *PortDetails) Decode(b *[NoticeDetailsLen]byte) {
	d.LID, d.Port = binary.BigEndian.Uint16(b[2:]), b[4]
}

// Encode writes the details of a notice, all of them.
func (d *PortDetails) Encode(b *[NoticeDetailsLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[2:], d.LID)
	b[4] = d.Port
}

// The changes that a notice of trap 144 reports; none: the capability mask.
const (
	ChangedDescription uint16 = 1 << 0
	ChangedWidth       uint16 = 1 << 1 // LinkWidthEnabled
	ChangedSpeed       uint16 = 1 << 2 // LinkSpeedEnabled
	ChangedSMPriority  uint16 = 1 << 3
	ChangedHierarchy   uint16 = 1 << 4
	ChangedCapMask2    uint16 = 1 << 5
)

// LocalChangesDetails are the details of trap 144.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|           Reserved            |              LID              |
//	+---------------+-------------+-+-------------------------------+
//	|   Reserved    |  Reserved   |O|     CapabilityMask 31:16      |
//	+---------------+-------------+-+---------------+---------------+
//	|     CapabilityMask 15:0       |  Reserved (10)    |  Changes  |
//	+-------------------------------+-------------------+-----------+
//	|        CapabilityMask2        |
//	+-------------------------------+
type LocalChangesDetails struct {
	LID      uint16
	Other    bool // Changes counts, too
	CapMask  uint32
	Changes  uint16
	CapMask2 uint16
}

// Decode reads the details of a notice.
func (d *LocalChangesDetails) Decode(b *[NoticeDetailsLen]byte) {
	d.LID = binary.BigEndian.Uint16(b[2:])
	d.Other = b[5]&1 != 0
	d.CapMask = binary.BigEndian.Uint32(b[6:])
	d.Changes = binary.BigEndian.Uint16(b[10:])
	d.CapMask2 = binary.BigEndian.Uint16(b[12:])
}

// Encode writes the details of a notice, all of them.
func (d *LocalChangesDetails) Encode(b *[NoticeDetailsLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[2:], d.LID)
	if d.Other {
		b[5] = 1
	}
	binary.BigEndian.PutUint32(b[6:], d.CapMask)
	binary.BigEndian.PutUint16(b[10:], d.Changes)
	binary.BigEndian.PutUint16(b[12:], d.CapMask2)
}

// MKeyDetails are the details of trap 256: the request that had a wrong M_Key.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|           Reserved            |              LID              |
//	+-------------------------------+---------------+---------------+
//	|            DrSLID             |    Method     |   Reserved    |
//	+-------------------------------+---------------+---------------+
//	|          AttributeID          |   AttributeModifier 31:16     |
//	+-------------------------------+-------------------------------+
//	|    AttributeModifier 15:0     |         M_Key 63:48           |
//	+-------------------------------+-------------------------------+
//	|                          M_Key 47:16                          |
//	+-------------------------------+---------------+-+-+-----------+
//	|          M_Key 15:0           |   Reserved    |D|T| Hop count |
//	+-------------------------------+---------------+-+-+-----------+
//	|                    Return path (30 bytes)                     |
//	+---------------------------------------------------------------+
type MKeyDetails struct {
	LID       uint16 // of the port
	DrSLID    uint16 // of the request, if it was directed
	Method    Method
	Attribute Attribute
	Modifier  uint32
	MKey      uint64 // of the request
	Directed  bool
	Truncated bool  // the return path was longer
	HopCount  uint8 // 6 bits
	Return    [30]byte
}

// Decode reads the details of a notice.
func (d *MKeyDetails) Decode(b *[NoticeDetailsLen]byte) {
	d.LID, d.DrSLID = binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[4:])
	d.Method, d.Attribute = Method(b[6]), Attribute(binary.BigEndian.Uint16(b[8:]))
	d.Modifier, d.MKey = binary.BigEndian.Uint32(b[10:]), binary.BigEndian.Uint64(b[14:])
	d.Directed, d.Truncated, d.HopCount = b[23]&0x80 != 0, b[23]&0x40 != 0, b[23]&0x3f
	d.Return = [30]byte(b[24:])
}

// Encode writes the details of a notice, all of them.
func (d *MKeyDetails) Encode(b *[NoticeDetailsLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[2:], d.LID)
	binary.BigEndian.PutUint16(b[4:], d.DrSLID)
	b[6] = byte(d.Method)
	binary.BigEndian.PutUint16(b[8:], uint16(d.Attribute))
	binary.BigEndian.PutUint32(b[10:], d.Modifier)
	binary.BigEndian.PutUint64(b[14:], d.MKey)
	b[23] = d.HopCount & 0x3f
	if d.Directed {
		b[23] |= 0x80
	}
	if d.Truncated {
		b[23] |= 0x40
	}
	copy(b[24:], d.Return[:])
}

// Which fields of a [KeyDetails] of trap 259 are valid.
const (
	ValidLID1 uint16 = 1 << iota
	ValidLID2
	ValidPKey
	ValidSL
	ValidQP1
	ValidQP2
	ValidGID1
	ValidGID2
)

// KeyDetails are the details of traps 257, 258 and 259: a packet that had a wrong P_Key or Q_Key. Side
// 1 is its source, side 2 its destination.
type KeyDetails struct {
	LID1, LID2 uint16
	Key        uint32 // a P_Key is in the low half
	SL         uint8  // 4 bits
	QP1, QP2   ib.QPN
	GID1, GID2 ib.GID // zero, if the packet had no GRH

	// Of trap 259 only: which of the fields above are valid, and the switch and port that found out.
	Valid     uint16
	SwitchLID uint16
	Port      uint8
}

// Decode reads the details of a notice of trap t, which is [TrapPKey], [TrapQKey] or [TrapSwitchPKey].
func (d *KeyDetails) Decode(t Trap, b *[NoticeDetailsLen]byte) {
	*d = KeyDetails{LID1: binary.BigEndian.Uint16(b[2:]), LID2: binary.BigEndian.Uint16(b[4:])}
	rest := b[10:]
	if t == TrapSwitchPKey {
		rest = b[8:]
		d.Valid, d.Key = binary.BigEndian.Uint16(b[:]), uint32(binary.BigEndian.Uint16(b[6:]))
		d.SwitchLID, d.Port = binary.BigEndian.Uint16(b[48:]), b[50]
	} else {
		d.Key = binary.BigEndian.Uint32(b[6:])
	}
	d.SL = rest[0] >> 4
	d.QP1 = ib.QPN(binary.BigEndian.Uint32(rest) & 0xff_ffff)
	d.QP2 = ib.QPN(binary.BigEndian.Uint32(rest[4:]) & 0xff_ffff)
	d.GID1, d.GID2 = ib.GID(rest[8:]), ib.GID(rest[24:])
}

// Encode writes the details of a notice of trap t, all of them.
func (d *KeyDetails) Encode(t Trap, b *[NoticeDetailsLen]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[2:], d.LID1)
	binary.BigEndian.PutUint16(b[4:], d.LID2)
	rest := b[10:]
	if t == TrapSwitchPKey {
		rest = b[8:]
		binary.BigEndian.PutUint16(b[:], d.Valid)
		binary.BigEndian.PutUint16(b[6:], uint16(d.Key))
		binary.BigEndian.PutUint16(b[48:], d.SwitchLID)
		b[50] = d.Port
	} else {
		binary.BigEndian.PutUint32(b[6:], d.Key)
	}
	binary.BigEndian.PutUint32(rest, uint32(d.SL&0xf)<<28|uint32(d.QP1)&0xff_ffff)
	binary.BigEndian.PutUint32(rest[4:], uint32(d.QP2)&0xff_ffff)
	copy(rest[8:], d.GID1[:])
	copy(rest[24:], d.GID2[:])
}
