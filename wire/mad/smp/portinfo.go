// SPDX-License-Identifier: Apache-2.0

package smp

import "encoding/binary"

// PortInfoLen is the length of a PortInfo in bytes.
const PortInfoLen = 64

// PortInfo is the state of a port, and its settings by the manager (section 14.2.5.6). Fields are in the
// order of the specification's table, but for the fields of the link and of the virtual lanes, which are
// together. In a Set, zero means no change where a field's type says so.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        M_Key (8 bytes)                        |
//	+---------------------------------------------------------------+
//	|                      GidPrefix (8 bytes)                      |
//	+-------------------------------+-------------------------------+
//	|              LID              |          MasterSMLID          |
//	+-------------------------------+-------------------------------+
//	|                        CapabilityMask                         |
//	+-------------------------------+-------------------------------+
//	|           DiagCode            |       M_KeyLeasePeriod        |
//	+---------------+---------------+---------------+---------------+
//	| LocalPortNum  | WidthEnabled  |WidthSupported |  WidthActive  |
//	+-------+-------+-------+-------+---+-----+-----+-------+-------+
//	|SpeedSu| State |PhysSt.|DownDef|Pro|Resv | LMC |SpeedAc|SpeedEn|
//	+-------+-------+-------+-------+---+-----+-----+-------+-------+
//	|NbrMTU |MstSMSL| VLCap |InitTyp|  VLHighLimit  |VLArbHighCap   |
//	+-------+-------+-------+-------+-----+---------+-------+-+-+-+-+
//	|VLArbLowCap    |InitRep|MTUCap |Stall| HOQLife |OperVLs|I|O|i|o|
//	+---------------+-------+-------+-----+---------+-------+-+-+-+-+
//	|       M_KeyViolations         |       P_KeyViolations         |
//	+-------------------------------+---------------+-+---+---------+
//	|       Q_KeyViolations         |    GUIDCap    |C|Sup|SubnetTO |
//	+-----+---------+-------+-------+---------------+-+---+---------+
//	|Resv |RespTime |PhyErrs|Overrun|         MaxCreditHint         |
//	+-----+---------+-------+-------+-------------------------------+
//	|   Reserved    |             LinkRoundTripLatency              |
//	+---------------+---------------+-------+-------+-----+---------+
//	|       CapabilityMask2         |ExtActi|ExtSupp|Resv |ExtEnable|
//	+-------------------------------+-------+-------+-----+---------+
type PortInfo struct {
	MKey        uint64
	GIDPrefix   uint64
	LID         uint16
	MasterSMLID uint16
	CapMask     CapMask
	DiagCode    uint16
	Lease       uint16 // M_KeyLeasePeriod in seconds; 0: for ever
	LocalPort   uint8  // the port that the request came in at

	Link PortLink

	Protect uint8 // 2 bits: M_KeyProtectBits
	Resv1   uint8 // 3 bits
	LMC     uint8 // 3 bits

	Lanes      PortLanes
	Violations Violations

	GUIDCap          uint8 // rows of the GID table
	ClientReregister bool
	TrapSuppression  uint8 // 2 bits: MulticastPKeyTrapSuppressionEnabled
	SubnetTimeout    uint8 // 5 bits: 4.096 µs × 2^SubnetTimeout
	Resv2            uint8 // 3 bits
	RespTime         uint8 // 5 bits: 4.096 µs × 2^RespTime

	MaxCreditHint    uint16
	RoundTripLatency uint32 // with a reserved byte on top
	CapMask2         uint16
}

// PortLink is the part of a PortInfo about the link. Widths are sets: 1 is 1X, 2 is 4X, 4 is 8X, 8 is
// 12X, 16 is 2X. Speeds are sets: 1, 2 and 4 are 2.5, 5 and 10 Gb/s a lane; extended ones 1, 2, 4 and 8
// are 14, 25, 50 and 100 Gb/s.
type PortLink struct {
	WidthEnabled   uint8 // Set: 0 is no change, 255 is all supported widths
	WidthSupported uint8
	WidthActive    uint8
	SpeedSupported uint8 // 4 bits, and so the next
	State          uint8 // PortState. Set: 0 is no change
	PhysState      uint8 // PortPhysicalState. Set: 0 is no change
	DownDefault    uint8 // LinkDownDefaultState. Set: 0 is no change
	SpeedActive    uint8
	SpeedEnabled   uint8 // Set: 0 is no change, 15 is all supported speeds

	SpeedExtActive    uint8 // 4 bits; 0: none, SpeedActive holds
	SpeedExtSupported uint8 // 4 bits
	Resv              uint8 // 3 bits
	SpeedExtEnabled   uint8 // 5 bits. Set: 0 is no change, 30 is none, 31 is all supported speeds
}

// Values of PortLink that stand for sets of other fields in a Set.
const (
	WidthAll     = 255 // LinkWidthEnabled: all supported widths
	SpeedAll     = 15  // LinkSpeedEnabled: all supported speeds
	SpeedExtNone = 30  // LinkSpeedExtEnabled: none
	SpeedExtAll  = 31  // LinkSpeedExtEnabled: all supported speeds
)

// PortLanes is the part of a PortInfo about MTU and virtual lanes. MTUs are codes: 1 is 256 bytes, 5 is
// 4096. How many data VLs there are is a code, too: 1 is VL 0, 2 is two, 3 is four, 4 is eight, 5 is 15.
type PortLanes struct {
	NeighborMTU    uint8 // 4 bits
	MasterSMSL     uint8 // 4 bits
	Cap            uint8 // 4 bits: VLCap, a code
	InitType       uint8 // 4 bits
	HighLimit      uint8
	ArbHighCap     uint8 // rows of the high-priority table
	ArbLowCap      uint8
	InitTypeReply  uint8 // 4 bits
	MTUCap         uint8 // 4 bits
	StallCount     uint8 // 3 bits
	HOQLife        uint8 // 5 bits: 4.096 µs × 2^HOQLife; 20 and above: without end
	OperationalVLs uint8 // 4 bits, a code. Set: 0 is no change
	EnforceIn      bool  // PartitionEnforcementInbound
	EnforceOut     bool
	FilterRawIn    bool
	FilterRawOut   bool
}

// Violations are the counters of a PortInfo, and the thresholds of two traps. A Set with 0 clears a
// counter; other values are ignored.
type Violations struct {
	MKey, PKey, QKey uint16
	LocalPhyErrors   uint8 // 4 bits: threshold of trap 129
	OverrunErrors    uint8 // 4 bits: threshold of trap 130
}

// CapMask is PortInfo:CapabilityMask.
type CapMask uint32

// Abilities of a port (section 14.2.5.6).
const (
	CapSM               CapMask = 1 << 1 // there is a subnet manager, even if not the master
	CapNotice           CapMask = 1 << 2
	CapTrap             CapMask = 1 << 3
	CapAutoMigration    CapMask = 1 << 5
	CapSLMapping        CapMask = 1 << 6
	CapMKeyNVRAM        CapMask = 1 << 7
	CapPKeyNVRAM        CapMask = 1 << 8
	CapLedInfo          CapMask = 1 << 9
	CapSMDisabled       CapMask = 1 << 10
	CapSystemGUID       CapMask = 1 << 11
	CapPKeySwitchTrap   CapMask = 1 << 12
	CapExtendedSpeeds   CapMask = 1 << 14
	CapCapMask2         CapMask = 1 << 15
	CapCM               CapMask = 1 << 16
	CapSNMP             CapMask = 1 << 17
	CapReinit           CapMask = 1 << 18
	CapDeviceManagement CapMask = 1 << 19
	CapVendorClass      CapMask = 1 << 20
	CapDRNotice         CapMask = 1 << 21
	CapMaskNotice       CapMask = 1 << 22 // trap 144 when this mask changes
	CapBootManagement   CapMask = 1 << 23
	CapRoundTripLatency CapMask = 1 << 24
	CapClientReregister CapMask = 1 << 25
	CapOtherChanges     CapMask = 1 << 26 // trap 144 for other local changes
	CapMulticastTraps   CapMask = 1 << 29 // suppression of them for P_Keys of multicast packets
	CapMulticastTop     CapMask = 1 << 30 // SwitchInfo:MulticastFDBTop
	CapHierarchy        CapMask = 1 << 31
)

// Bits of PortInfo:CapabilityMask2.
const (
	Cap2SetDescription uint16 = 1 << 0 // Set of NodeDescription
	Cap2PortInfoExt    uint16 = 1 << 1
	Cap2Width2x        uint16 = 1 << 4
	Cap2SpeedHDR       uint16 = 1 << 5
	Cap2SpeedNDR       uint16 = 1 << 10
)

// VLCode returns the code of a number of data VLs: 1 for 1, 2 for 2, 3 for 4, 4 for 8, 5 for 15; 0 for
// other numbers.
func VLCode(vls int) uint8 {
	for c, n := range vlCodes {
		if n == vls {
			return uint8(c)
		}
	}
	return 0
}

// VLs returns the number of data VLs of a code, and 0 for reserved codes.
func VLs(code uint8) int {
	if int(code) < len(vlCodes) {
		return vlCodes[code]
	}
	return 0
}

var vlCodes = [...]int{0, 1, 2, 4, 8, 15}

// Decode reads the attribute in b. It returns false if b is shorter than PortInfoLen.
func (m *PortInfo) Decode(b []byte) bool {
	if len(b) < PortInfoLen {
		return false
	}
	be := binary.BigEndian
	m.MKey, m.GIDPrefix = be.Uint64(b), be.Uint64(b[8:])
	m.LID, m.MasterSMLID, m.CapMask = be.Uint16(b[16:]), be.Uint16(b[18:]), CapMask(be.Uint32(b[20:]))
	m.DiagCode, m.Lease, m.LocalPort = be.Uint16(b[24:]), be.Uint16(b[26:]), b[28]
	m.Link = PortLink{
		WidthEnabled: b[29], WidthSupported: b[30], WidthActive: b[31],
		SpeedSupported: b[32] >> 4, State: b[32] & 0xf, PhysState: b[33] >> 4, DownDefault: b[33] & 0xf,
		SpeedActive: b[35] >> 4, SpeedEnabled: b[35] & 0xf,
		SpeedExtActive: b[62] >> 4, SpeedExtSupported: b[62] & 0xf, Resv: b[63] >> 5, SpeedExtEnabled: b[63] & 0x1f,
	}
	m.Protect, m.Resv1, m.LMC = b[34]>>6, b[34]>>3&7, b[34]&7
	m.Lanes = PortLanes{
		NeighborMTU: b[36] >> 4, MasterSMSL: b[36] & 0xf, Cap: b[37] >> 4, InitType: b[37] & 0xf,
		HighLimit: b[38], ArbHighCap: b[39], ArbLowCap: b[40], InitTypeReply: b[41] >> 4, MTUCap: b[41] & 0xf,
		StallCount: b[42] >> 5, HOQLife: b[42] & 0x1f, OperationalVLs: b[43] >> 4,
		EnforceIn: b[43]&8 != 0, EnforceOut: b[43]&4 != 0, FilterRawIn: b[43]&2 != 0, FilterRawOut: b[43]&1 != 0,
	}
	m.Violations = Violations{MKey: be.Uint16(b[44:]), PKey: be.Uint16(b[46:]), QKey: be.Uint16(b[48:]),
		LocalPhyErrors: b[53] >> 4, OverrunErrors: b[53] & 0xf}
	m.GUIDCap = b[50]
	m.ClientReregister, m.TrapSuppression, m.SubnetTimeout = b[51]&0x80 != 0, b[51]>>5&3, b[51]&0x1f
	m.Resv2, m.RespTime = b[52]>>5, b[52]&0x1f
	m.MaxCreditHint, m.RoundTripLatency, m.CapMask2 = be.Uint16(b[54:]), be.Uint32(b[56:]), be.Uint16(b[60:])
	return true
}

// Append appends the attribute to b.
func (m *PortInfo) Append(b []byte) []byte {
	be, l, v, n := binary.BigEndian, &m.Link, &m.Lanes, &m.Violations
	b = be.AppendUint64(be.AppendUint64(b, m.MKey), m.GIDPrefix)
	b = be.AppendUint16(be.AppendUint16(b, m.LID), m.MasterSMLID)
	b = be.AppendUint32(b, uint32(m.CapMask))
	b = be.AppendUint16(be.AppendUint16(b, m.DiagCode), m.Lease)
	b = append(b, m.LocalPort, l.WidthEnabled, l.WidthSupported, l.WidthActive,
		l.SpeedSupported<<4|l.State&0xf, l.PhysState<<4|l.DownDefault&0xf,
		m.Protect<<6|m.Resv1&7<<3|m.LMC&7, l.SpeedActive<<4|l.SpeedEnabled&0xf,
		v.NeighborMTU<<4|v.MasterSMSL&0xf, v.Cap<<4|v.InitType&0xf, v.HighLimit, v.ArbHighCap,
		v.ArbLowCap, v.InitTypeReply<<4|v.MTUCap&0xf, v.StallCount<<5|v.HOQLife&0x1f,
		v.OperationalVLs<<4|bit(v.EnforceIn, 3)|bit(v.EnforceOut, 2)|bit(v.FilterRawIn, 1)|bit(v.FilterRawOut, 0))
	b = be.AppendUint16(be.AppendUint16(be.AppendUint16(b, n.MKey), n.PKey), n.QKey)
	b = append(b, m.GUIDCap, bit(m.ClientReregister, 7)|m.TrapSuppression&3<<5|m.SubnetTimeout&0x1f,
		m.Resv2<<5|m.RespTime&0x1f, n.LocalPhyErrors<<4|n.OverrunErrors&0xf)
	b = be.AppendUint16(b, m.MaxCreditHint)
	b = be.AppendUint32(b, m.RoundTripLatency)
	b = be.AppendUint16(b, m.CapMask2)
	return append(b, l.SpeedExtActive<<4|l.SpeedExtSupported&0xf, l.Resv<<5|l.SpeedExtEnabled&0x1f)
}
