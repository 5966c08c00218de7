// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// ManagementVL is the virtual lane of subnet management packets (section 7.6.2). It has no credits.
	ManagementVL = 15
	// DataVLs is how many virtual lanes for data there can be.
	DataVLs = 15
	// ServiceLevels is how many service levels there are (section 7.6.5).
	ServiceLevels = 16
	// PermissiveLID addresses the node at the other end of a link (section 4.1.3).
	PermissiveLID uint16 = 0xffff
	// FirstMulticastLID and LastMulticastLID bound the LIDs of multicast groups (section 4.1.3).
	FirstMulticastLID uint16 = 0xc000
	LastMulticastLID  uint16 = 0xfffe
)

// Node is a channel adapter or a switch.
type Node struct {
	Type        Type
	GUID        uint64
	SystemGUID  uint64
	VendorID    uint32 // 24 bits
	DeviceID    uint16
	Revision    uint32
	Description string // at most 64 bytes

	// Ports has the external ports from index 1 on. Index 0 is a switch's management port; a channel
	// adapter's is unused.
	Ports []Port
	// Tables are a switch's; nil: the node is none.
	Tables *Tables

	// Changed is called after a management packet has changed something of a port that its owner must
	// follow; may be nil.
	Changed func(port int)
}

// Port is a port, or a switch's port 0.
type Port struct {
	GUID uint64 // of an adapter's port, and of a switch's port 0; external ports of switches have none

	Link State // logical and physical state, width and speed
	MTU  MTU

	Address   Address
	Authority Authority
	Lanes     Lanes
	Partition Partition

	CapMask  uint32   // PortInfo:CapabilityMask
	GUIDs    []uint64 // GUIDInfo: interface ids of the GID table; the first is GUID and read-only
	Counters Counters
	Notices  Notices
}

// State is the state of a port and of its link (section 14.2.5.6).
type State struct {
	Logical     LinkState
	Physical    PhysState
	DownDefault PhysState // the state that a port goes to when its link is down: Sleep or Polling
	Retrain     bool      // a manager has set Down: the link is to go down and to train again

	WidthSupported, WidthEnabled, WidthActive Width
	SpeedSupported, SpeedEnabled, SpeedActive Speed
}

// MTU holds the MTUs of a port and its neighbor, as codes: 1 is 256 bytes, 5 is 4096 (section 14.2.5.6).
type MTU struct {
	Cap      uint8
	Neighbor uint8 // set by the subnet manager; data packets above it are not sent
}

// Address holds the addresses of a port, and the way to its subnet manager.
type Address struct {
	Prefix        uint64 // GidPrefix
	LID           uint16 // 0: none yet
	LMC           uint8
	SMLID         uint16
	SMSL          uint8
	SubnetTimeout uint8
	RespTime      uint8
	Reregister    bool // ClientReregister was set, and is to be reported to clients
}

// Authority holds the M_Key and its protection: whether a manager may change a port (section 14.2.4).
type Authority struct {
	MKey       uint64
	Protect    uint8  // MKeyProtectBits
	Lease      uint16 // M_KeyLeasePeriod in seconds; 0: for ever
	Violations uint16
}

// ArbEntry is a row of a VL arbitration table. Weight counts 64-byte units; 0: the row is skipped
// (section 7.6.9).
type ArbEntry struct {
	VL     uint8
	Weight uint8
}

// Lanes are a port's virtual lanes.
type Lanes struct {
	Cap         uint8 // VLCap: how many data VLs the port has: 1, 2, 4, 8 or 15, as its number
	Operational uint8 // OperationalVLs: how many are in use, as a number too
	HighLimit   uint8 // VLHighLimit: 4 KiB units that the high table may send in a row; 255: no limit, 0: one packet
	High, Low   []ArbEntry
	// SLtoVL has the lane of each service level. A switch's output port has a row for each input
	// port; an adapter's has row 0 only (section 14.2.5.8). A service level on VL 15 is dropped.
	SLtoVL  [][ServiceLevels]uint8
	HOQLife uint8 // head-of-queue lifetime: 4.096 µs × 2^HOQLife; 20 and above: for ever (section 18.2.5.4)
	Stall   uint8 // VLStallCount
}

// Partition are a port's partitions. In a switch's external port the table is enforced where the two
// flags say so (section 18.2.4.2).
type Partition struct {
	PKeys       []ib.PKey // 0: nothing is in the row
	EnforceIn   bool
	EnforceOut  bool
	PViolations uint16
	QViolations uint16
}

// Notices are the changes that a port has to report to its subnet manager.
type Notices struct {
	StateChanged bool // a switch's PortStateChange, kept at port 0
}

// Tables are a switch's forwarding tables (section 14.2.5.4, 14.2.5.10, 14.2.5.11).
type Tables struct {
	// Linear has the output port of each unicast LID; [NoRoute]: drop.
	Linear []uint8
	Top    uint16 // LinearFDBTop: LIDs above are dropped
	// Multicast has the output ports of the groups from [FirstMulticastLID] on, as bits.
	Multicast [][4]uint64
	LifeTime  uint8 // packets older than 4.096 µs × 2^LifeTime are dropped; 20 and above: never
	// PrimaryMulticast and NotPrimaryMulticast are the ports for groups that are not in Multicast;
	// [NoRoute]: drop.
	PrimaryMulticast, NotPrimaryMulticast uint8
	// Changed is PortStateChange: a port of the switch has changed its state since a manager cleared it.
	Changed bool
	// EnforcementCap is how many rows the partition table of an external port has:
	// SwitchInfo:PartitionEnforcementCap. 0: the switch does not enforce partitions.
	EnforcementCap uint16
}

// NoRoute is the entry of a forwarding table for a LID without a way.
const NoRoute = 0xff

// Counters are a port's, as performance management reads them (sections 16.1.3.5 and 16.1.4.11). All
// are 64 bits here; the attribute with narrow fields saturates.
type Counters struct {
	XmitData, RcvData       uint64 // 4-byte words, without the CRCs' VCRC and flow control
	XmitPkts, RcvPkts       uint64
	UnicastXmit, UnicastRcv uint64
	MulticastXmit           uint64
	MulticastRcv            uint64

	SymbolErrors         uint64
	LinkErrorRecovery    uint64
	LinkDowned           uint64
	RcvErrors            uint64 // packets with a bad VCRC, ICRC or length, or to a port that took none
	RcvRemotePhysical    uint64 // packets marked bad by the sender
	RcvSwitchRelayErrors uint64 // no route, or back where it came from
	XmitDiscards         uint64 // port inactive, head-of-queue lifetime, too long for the neighbor
	XmitConstraint       uint64 // P_Key enforcement on output
	RcvConstraint        uint64 // P_Key enforcement on input
	LocalIntegrity       uint64
	BufferOverrun        uint64 // packets beyond the credits
	VL15Dropped          uint64
	XmitWait             uint64 // ticks of [WaitTick] in which there was something to send and no credit

	// LanePkts counts packets on data lanes, sent and received, which excludes subnet management.
	// Performance management has no such counter.
	LanePkts uint64
}

// WaitTick is how many nanoseconds a tick of XmitWait has: a symbol of the slowest speed (section 16.1.3.5).
const WaitTick = 4
