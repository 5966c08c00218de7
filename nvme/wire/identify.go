// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"math/bits"
)

// IdentifySize is the length of every data structure of Identify, in bytes.
const IdentifySize = 4096

// CNS says which data structure an Identify command asks for (base 5.15).
type CNS uint8

// Data structures.
const (
	IdentifyNamespace   CNS = 0x00
	IdentifyController  CNS = 0x01
	IdentifyActive      CNS = 0x02 // namespaces above Command.NSID
	IdentifyDescriptors CNS = 0x03 // identifiers of a namespace
)

// Controller types.
const (
	TypeIO        = 1
	TypeDiscovery = 2
)

// Optional commands (ONCS).
const (
	HasCompare           = 1 << 0
	HasDatasetManagement = 1 << 2
	HasWriteZeroes       = 1 << 3
)

// OneFirmware says that there is one slot of firmware, which cannot be written (FRMW).
const OneFirmware = 1 | 1<<1

// SGL support (SGLS).
const (
	SGLSupported   = 1 << 0
	SGLHasKeyed    = 1 << 2
	SGLHasOffset   = 1 << 20 // data in the capsule by offset
	EventNamespace = 1 << 8  // OAES: notices of namespaces
	EventANA       = 1 << 11 // OAES: notices of asymmetric namespace access
	EventDiscovery = 1 << 31 // OAES: notices of the discovery log
)

// Controller is the data of Identify for a controller (base 5.15.2.2, fabrics 4.1). Fields that are not here are zero.
type Controller struct {
	Serial       string // at most 20 bytes
	Model        string // at most 40 bytes
	Firmware     string // at most 8 bytes
	Shared       bool   // CMIC: the subsystem may have several ports and controllers
	MDTS         uint8  // the most data of a command, as a power of 2 of pages of 4 KiB; 0: no limit
	ID           uint16 // CNTLID
	Version      uint32
	Events       uint32 // OAES
	Type         uint8
	AbortLimit   uint8  // less one
	EventLimit   uint8  // requests, less one
	Firmwares    uint8  // FRMW
	LogPages     uint8  // LPA
	MultiDomain  bool   // CTRATT: the subsystem has several domains, each with its own power and caches
	ErrorEntries uint8  // ELPE: entries of the error log, less one
	KeepAlive    uint16 // granularity, in 100 ms
	MaxCommands  uint16
	Namespaces   uint32 // NN: the highest number, and MNAN: how many there may be
	ANA          uint8  // ANACAP; 0: the controller does not report asymmetric namespace access
	ANATime      uint8  // ANATT: how long a change may take, in seconds
	ANAGroups    uint32 // ANAGRPMAX and NANAGRPID: the highest number, and how many there are
	Commands     uint16 // ONCS
	WriteCache   bool
	SGLs         uint32
	SubNQN       string
	CapsuleSize  uint32 // IOCCSZ: the longest command capsule, in 16 bytes
	ResponseSize uint32 // IORCSZ, in 16 bytes
	DataOffset   uint16 // ICDOFF: of data in a capsule, in 16 bytes
	DataBlocks   uint8  // MSDBD: SGL descriptors in a capsule
}

// multiDomain is the bit of CTRATT that says that the subsystem has several domains (MDS).
const multiDomain = 1 << 11

// anaReporting is the bit of CMIC that says that there is asymmetric namespace access.
const anaReporting = 1 << 3

// Append appends the 4096 bytes.
func (c *Controller) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	d := b[at:]
	putText(d[4:24], c.Serial)
	putText(d[24:64], c.Model)
	putText(d[64:72], c.Firmware)
	if c.Shared {
		d[76] = 3
	}
	if c.ANA != 0 {
		d[76] |= anaReporting
		d[342], d[343] = c.ANATime, c.ANA
		le.PutUint32(d[344:], c.ANAGroups)
		le.PutUint32(d[348:], c.ANAGroups)
		le.PutUint32(d[540:], c.Namespaces)
	}
	d[77] = c.MDTS
	le.PutUint16(d[78:], c.ID)
	le.PutUint32(d[80:], c.Version)
	le.PutUint32(d[92:], c.Events)
	if c.MultiDomain {
		le.PutUint32(d[96:], multiDomain)
	}
	d[111] = c.Type
	d[258], d[259], d[260], d[261], d[262] = c.AbortLimit, c.EventLimit, c.Firmwares, c.LogPages, c.ErrorEntries
	le.PutUint16(d[320:], c.KeepAlive)
	d[512], d[513] = 0x66, 0x44 // entries of 64 and 16 bytes
	le.PutUint16(d[514:], c.MaxCommands)
	le.PutUint32(d[516:], c.Namespaces)
	le.PutUint16(d[520:], c.Commands)
	if c.WriteCache {
		d[525] = 1 | 2<<1 // Flush takes one namespace, not all
	}
	le.PutUint32(d[536:], c.SGLs)
	copy(d[768:768+MaxNQN], c.SubNQN)
	le.PutUint32(d[1792:], c.CapsuleSize)
	le.PutUint32(d[1796:], c.ResponseSize)
	le.PutUint16(d[1800:], c.DataOffset)
	d[1803] = c.DataBlocks
	return b
}

// Decode decodes the data structure; false: it has another length.
func (c *Controller) Decode(d []byte) bool {
	if len(d) != IdentifySize {
		return false
	}
	nqn, _ := decodeNQN(d[768:1024])
	*c = Controller{
		Serial: text(d[4:24]), Model: text(d[24:64]), Firmware: text(d[64:72]), Shared: d[76]&3 != 0, MDTS: d[77],
		ID: le.Uint16(d[78:]), Version: le.Uint32(d[80:]), Events: le.Uint32(d[92:]), Type: d[111],
		AbortLimit: d[258], EventLimit: d[259], Firmwares: d[260], LogPages: d[261], ErrorEntries: d[262],
		KeepAlive: le.Uint16(d[320:]), MaxCommands: le.Uint16(d[514:]), Namespaces: le.Uint32(d[516:]),
		Commands: le.Uint16(d[520:]), WriteCache: d[525]&1 != 0, SGLs: le.Uint32(d[536:]), SubNQN: nqn,
		CapsuleSize: le.Uint32(d[1792:]), ResponseSize: le.Uint32(d[1796:]), DataOffset: le.Uint16(d[1800:]),
		DataBlocks: d[1803], MultiDomain: le.Uint32(d[96:])&multiDomain != 0,
	}
	if d[76]&anaReporting != 0 && d[343] != 0 {
		c.ANA, c.ANATime, c.ANAGroups = d[343], d[342], le.Uint32(d[344:])
	}
	return true
}

// Namespace is the data of Identify for a namespace (base 5.15.2.1).
type Namespace struct {
	Blocks      uint64
	BlockSize   uint32 // a power of 2 from 512 on; 0: not known to Decode
	Metadata    uint16 // bytes beside each block
	Deallocates bool   // Dataset Management may deallocate, Write Zeroes too
	Shared      bool
	ReadOnly    bool
	Group       uint32 // ANAGRPID; 0: none
	NGUID       [16]byte
}

// Append appends the 4096 bytes.
func (n *Namespace) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	d := b[at:]
	for i := 0; i < 24; i += 8 {
		le.PutUint64(d[i:], n.Blocks)
	}
	if n.Deallocates {
		d[33] = 1 | 1<<3 // blocks read as zeros afterwards; Write Zeroes may deallocate
	}
	if n.Shared {
		d[30] = 1
	}
	if n.ReadOnly {
		d[99] = 1
	}
	le.PutUint32(d[92:], n.Group)
	copy(d[104:], n.NGUID[:])
	le.PutUint16(d[128:], n.Metadata)
	d[130] = uint8(bits.TrailingZeros32(n.BlockSize))
	return b
}

// Decode decodes the data structure; false: it has another length, a format that is none, or 2^63 bytes or more.
func (n *Namespace) Decode(d []byte) bool {
	if len(d) != IdentifySize {
		return false
	}
	format := int(d[26] & 0xf)
	lbaf := d[128+4*format:]
	if format > int(d[25]) || lbaf[2] < 9 || lbaf[2] > 31 || le.Uint64(d) > math.MaxInt64>>lbaf[2] {
		return false
	}
	*n = Namespace{Blocks: le.Uint64(d), BlockSize: 1 << lbaf[2], Metadata: le.Uint16(lbaf), Deallocates: d[33]&7 == 1,
		Shared: d[30]&1 != 0, ReadOnly: d[99]&1 != 0, Group: le.Uint32(d[92:]), NGUID: [16]byte(d[104:])}
	return true
}

// AppendActive appends a list of namespaces: 4096 bytes, for at most 1024 numbers.
func AppendActive(b []byte, ids []uint32) []byte {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	for i, id := range ids[:min(len(ids), IdentifySize/4)] {
		le.PutUint32(b[at+4*i:], id)
	}
	return b
}

// DecodeActive decodes a list of namespaces, which ends with a 0 or with the data.
func DecodeActive(b []byte) (ids []uint32) {
	for ; len(b) >= 4 && le.Uint32(b) != 0; b = b[4:] {
		ids = append(ids, le.Uint32(b))
	}
	return ids
}

// AppendDescriptors appends the identifiers of a namespace: its NGUID and UUID (base 5.15.2.4).
func AppendDescriptors(b []byte, nguid, uuid [16]byte) []byte {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	for i, id := range [...][16]byte{nguid, uuid} {
		d := b[at+20*i:]
		d[0], d[1] = byte(2+i), 16
		copy(d[4:], id[:])
	}
	return b
}
