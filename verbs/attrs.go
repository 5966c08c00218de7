// SPDX-License-Identifier: Apache-2.0

package verbs

import "time"

// AtomicCap is the scope in which a device's atomic operations are atomic (IBTA 11.2.1.2).
type AtomicCap uint8

const (
	AtomicNone   AtomicCap = iota // no atomic operations
	AtomicDevice                  // among the operations of this device
	AtomicGlobal                  // also against sync/atomic of the host's processors
)

// String returns the name that ibv_devinfo prints, such as ATOMIC_HCA.
func (a AtomicCap) String() string {
	return name([]string{"ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB"}, a)
}

// Transport is the protocol that a device's queue pairs speak (ibv_transport_type). Two facts follow from
// it and from no capability: which operations the protocol has, and how much a completion says about the
// peer.
type Transport uint8

const (
	TransportIB Transport = iota + 1 // InfiniBand's (IBTA chapter 9), which RoCE has too
	// RDMAP (RFC 5040, RFC 7306): a WRITE completes before it has arrived; no SEND with immediate
	TransportIWARP
)

// String returns the name that ibv_devinfo prints, such as iWARP.
func (t Transport) String() string { return name([]string{"", "InfiniBand", "iWARP"}, t) }

// DeviceAttr are the attributes and limits of a device (IBTA 11.2.1.2, ibv_query_device).
type DeviceAttr struct {
	Name         string
	Kind         string // the fabric, for display: "roce", "iwarp"; programs ask Transport and Caps
	Transport    Transport
	Firmware     string // version of the implementation
	NodeGUID     uint64
	SysImageGUID uint64
	VendorID     uint32
	VendorPartID uint32
	HWVersion    uint32
	Ports        int

	MaxMRSize  uint64
	PageSizes  uint64 // bit n set: pages of 2^n bytes
	MaxQP      int
	MaxQPWR    int // outstanding work requests of one queue
	MaxSGE     int
	MaxSGERead int // scatter entries of a READ
	// SinkAccess is the access that memory needs for the data of READs: LocalWrite, and on NICs for iWARP RemoteWrite
	// too, because the response names the memory as a WRITE would. A peer may write to it then.
	SinkAccess        Access
	MaxInline         int // bytes
	MaxCQ             int
	MaxCQE            int
	MaxMR             int
	MaxMW             int
	MaxPD             int
	MaxAH             int
	MaxSRQ            int
	MaxSRQWR          int
	MaxSRQSGE         int
	MaxXRCD           int
	MaxQPRdAtomic     int // READs and atomics that a QP answers at once
	MaxQPInitRdAtomic int // READs and atomics that a QP has in flight
	MaxMcastGroups    int
	MaxMcastQP        int // queue pairs in one multicast group
	MaxPKeys          int

	Atomic          AtomicCap
	Caps            DeviceCap
	LocalCAAckDelay time.Duration // longest time until a request is acknowledged
	MaxMsgSize      uint64
	// OneSided names, for display, the side that carries out one-sided operations on each kind of memory. It
	// is empty where that is always the target's device.
	OneSided string
}

// DeviceCap are optional abilities (IBTA 11.2.1.2, ibv_device_cap_flags).
type DeviceCap uint32

const (
	CapSRQ             DeviceCap = 1 << iota // shared receive queues
	CapXRC                                   // XRC queue pairs and domains
	CapMWType1                               // memory windows of type 1
	CapMWType2B                              // memory windows of type 2B
	CapSendInvalidate                        // [OpSendInv] and [OpLocalInv]
	CapRNRNak                                // RC receivers without a receive ask the sender to try again
	CapSRQResize                             // [SRQ.Modify] changes MaxWR
	CapResizeCQ                              // [CQ.Resize]
	CapFlush                                 // to global visibility
	CapAtomicWrite                           // [OpAtomicWrite]
	CapTimestamp                             // completions have a time, see [Device.Clock]
	CapOnDemand                              // [OnDemand] regions
	CapUDMulticast                           // [QP.AttachMulticast]
	CapUC                                    // UC queue pairs
	CapUD                                    // UD queue pairs
	CapFlushPersistent                       // FLUSH to persistence, of memory that is mapped from a file
	CapExclude                               // [MR.Do] keeps the device from the region
	// [MR.WaitFor] sleeps until a peer changes the region; without this it polls
	CapWatch
)

// String lists the names that ibv_devinfo has for them.
func (c DeviceCap) String() string {
	return flagNames(uint32(c), "SRQ", "XRC", "MEM_WINDOW_TYPE_1", "MEM_WINDOW_TYPE_2B", "SEND_WITH_INV",
		"RC_RNR_NAK_GEN", "SRQ_RESIZE", "RESIZE_CQ", "FLUSH", "ATOMIC_WRITE", "TIMESTAMP", "ON_DEMAND", "UD_MULTICAST",
		"UC", "UD", "FLUSH_PERSISTENT")
}

// PortState is the state of a port (IBTA 7.2.7).
type PortState uint8

const (
	PortDown   PortState = iota + 1 // no link
	PortInit                        // a link, and no subnet manager has set the port up yet
	PortArmed                       // the subnet manager has set it up, and has yet to make it active
	PortActive                      // data can be sent
)

// String returns the name that ibv_devinfo prints, such as PORT_ACTIVE.
func (s PortState) String() string {
	return name([]string{"", "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE"}, s)
}

// LinkLayer is the link layer of a port.
type LinkLayer uint8

const (
	LinkEthernet     LinkLayer = iota + 1 // also of RoCEv2 and iWARP on any interface
	LinkInfiniBand                        // a link of an InfiniBand subnet
	LinkSharedMemory                      // memory of this host
)

// String returns the name that ibv_devinfo prints, such as Ethernet.
func (l LinkLayer) String() string {
	return name([]string{"", "Ethernet", "InfiniBand", "SharedMemory"}, l)
}

// PortAttr are the attributes of a port (IBTA 11.2.1.2, ibv_query_port).
type PortAttr struct {
	// State is PortActive while the interface that has the port's address is up and has a link, and
	// otherwise PortDown. On Linux it follows the interface, and EventPortActive and EventPortError
	// report changes. Elsewhere it is the state at the time when the device was opened.
	State     PortState
	Link      LinkLayer
	NetDev    string // the network interface, if there is one
	MaxMTU    MTU
	ActiveMTU MTU
	LinkMTU   int    // bytes of an IP packet
	MaxMsg    uint64 // bytes
	GIDs      int    // rows of the GID table, empty ones too
	PKeys     int
	LID       uint16 // 0: the fabric has none, or the port has not got it yet
	LMC       uint8  // so many low bits of a LID choose a path: the port has 1<<LMC LIDs
	SMLID     uint16 // where the subnet manager is
	SL        uint8  // by which it is reached
	SpeedMbps int64  // 0: unknown

	Subnet SubnetPort // zero unless the port is in an InfiniBand subnet
}

// SubnetPort holds further fields of a port's PortInfo (IBTA 14.2.5.6), in its numbers.
type SubnetPort struct {
	PhysState     uint8  // PortPhysicalState: 2 is Polling, 3 is Disabled, 5 is LinkUp
	Width         uint8  // LinkWidthActive: 1, 2, 4, 8 and 16 are 1X, 4X, 8X, 12X and 2X
	Speed         uint8  // a lane's: 1, 2 and 4 as LinkSpeedActive; 16, 32, 64 and 128 are 14, 25, 50 and 100 Gbit/s
	VLs           uint8  // VLCap: 1 to 5 are 1, 2, 4, 8 and 15 virtual lanes for data
	SubnetTimeout uint8  // the most a packet takes through the subnet is 4.096 µs << SubnetTimeout
	CapMask       uint32 // CapabilityMask
}

// GIDType says how packets of a GID table entry look on the wire.
type GIDType uint8

const (
	GIDInfiniBand GIDType = iota + 1 // InfiniBand's link
	GIDRoCEv2                        // UDP, port 4791
	GIDiWARP                         // TCP or SCTP
	GIDRoCEv1                        // Ethernet frames of type 0x8915
)

// String returns the name in sysfs, such as RoCE v2.
func (t GIDType) String() string {
	return name([]string{"", "IB", "RoCE v2", "iWARP", "RoCE v1"}, t)
}

// GIDEntry is one row of a port's GID table.
type GIDEntry struct {
	Index  int
	GID    GID
	Type   GIDType
	NetDev string
}
