// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

var le = binary.LittleEndian

// Sizes in bytes.
const (
	CommandSize    = 64
	CompletionSize = 16
	SGLSize        = 16
)

// Opcode is the operation of a command. Its meaning depends on the queue: admin or I/O (base 5 and 6).
type Opcode uint8

// Opcodes of the admin queue.
const (
	AdminGetLogPage  Opcode = 0x02
	AdminIdentify    Opcode = 0x06
	AdminAbort       Opcode = 0x08
	AdminSetFeatures Opcode = 0x09
	AdminGetFeatures Opcode = 0x0a
	AdminAsyncEvent  Opcode = 0x0c
	AdminKeepAlive   Opcode = 0x18
)

// Opcodes of I/O queues.
const (
	Flush             Opcode = 0x00
	Write             Opcode = 0x01
	Read              Opcode = 0x02
	Compare           Opcode = 0x05
	WriteZeroes       Opcode = 0x08
	DatasetManagement Opcode = 0x09
)

// Fabrics is the opcode of all fabrics commands, on both kinds of queue (fabrics 3).
const Fabrics Opcode = 0x7f

// FabricsType says which fabrics command it is: byte 4 of the command.
type FabricsType uint8

// Fabrics commands (fabrics 3).
const (
	PropertySet FabricsType = 0x00
	Connect     FabricsType = 0x01
	PropertyGet FabricsType = 0x04
	AuthSend    FabricsType = 0x05
	AuthReceive FabricsType = 0x06
)

// Bits of Command.Flags (base 4.2).
const (
	FlagFuse     = 0x03 // a fused operation
	FlagTransfer = 0xc0 // how data is described
	FlagSGL      = 0x40 // by an SGL, as always over fabrics
)

// Command is a submission queue entry (base 4.2). Fabrics commands use the same 64 bytes: their type is the low byte of
// NSID.
type Command struct {
	Opcode Opcode
	Flags  uint8
	CID    uint16
	NSID   uint32
	CDW2   uint32
	CDW3   uint32
	MPTR   uint64
	SGL    SGL
	CDW10  uint32
	CDW11  uint32
	CDW12  uint32
	CDW13  uint32
	CDW14  uint32
	CDW15  uint32
}

// FabricsType returns the type of a fabrics command.
func (c *Command) FabricsType() FabricsType { return FabricsType(c.NSID) }

// Decode decodes the first 64 bytes of a capsule; false: there are fewer.
func (c *Command) Decode(b []byte) bool {
	if len(b) < CommandSize {
		return false
	}
	*c = Command{Opcode: Opcode(b[0]), Flags: b[1], CID: le.Uint16(b[2:]), NSID: le.Uint32(b[4:]),
		CDW2: le.Uint32(b[8:]),
		CDW3: le.Uint32(b[12:]), MPTR: le.Uint64(b[16:]), CDW10: le.Uint32(b[40:]), CDW11: le.Uint32(b[44:]),
		CDW12: le.Uint32(b[48:]), CDW13: le.Uint32(b[52:]), CDW14: le.Uint32(b[56:]), CDW15: le.Uint32(b[60:])}
	copy(c.SGL[:], b[24:40])
	return true
}

// Append appends the command's 64 bytes.
func (c *Command) Append(b []byte) []byte {
	b = append(b, byte(c.Opcode), c.Flags)
	b = le.AppendUint16(b, c.CID)
	for _, v := range [...]uint32{c.NSID, c.CDW2, c.CDW3} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(b, c.MPTR)
	b = append(b, c.SGL[:]...)
	for _, v := range [...]uint32{c.CDW10, c.CDW11, c.CDW12, c.CDW13, c.CDW14, c.CDW15} {
		b = le.AppendUint32(b, v)
	}
	return b
}

// SetLBA sets the blocks that a read or write is about: n of them, at least 1 and at most 65536, from slba on (base
// 6.9).
func (c *Command) SetLBA(slba uint64, n uint32) {
	c.CDW10, c.CDW11 = uint32(slba), uint32(slba>>32)
	c.CDW12 = c.CDW12&^0xffff | (n-1)&0xffff
}

// LBA returns the blocks that SetLBA has set.
func (c *Command) LBA() (slba uint64, n uint32) {
	return uint64(c.CDW11)<<32 | uint64(c.CDW10), c.CDW12&0xffff + 1
}

// Bits of CDW12 of I/O commands.
const (
	ForceUnitAccess = 1 << 30 // Read, Write, Compare, Write Zeroes: the data is on the medium
	ProtectionInfo  = 0xf << 26
)

// DeallocateRanges is the bit of CDW11 by which Dataset Management deallocates (base 6.7).
const DeallocateRanges = 1 << 2

// SGL is a descriptor of data (base 4.4).
type SGL [SGLSize]byte

// SGLType is the type and the subtype of a descriptor, as in its last byte.
type SGLType uint8

// Descriptors of NVMe over RDMA (fabrics 7.3.5).
const (
	SGLInCapsule       SGLType = 0x01 // data block by offset: the data is in the capsule
	SGLKeyed           SGLType = 0x40 // keyed data block: address, length and key of the host's memory
	SGLKeyedInvalidate SGLType = 0x4f // the same; the response is to invalidate the key
)

// Type returns the type and subtype.
func (s *SGL) Type() SGLType { return SGLType(s[15]) }

// MaxKeyedLength is the longest memory that a keyed descriptor describes, in bytes.
const MaxKeyedLength = 1<<24 - 1

// Keyed describes n bytes of memory, at most MaxKeyedLength.
func Keyed(t SGLType, addr uint64, n int, key uint32) (s SGL) {
	le.PutUint64(s[:], addr)
	le.PutUint32(s[8:], uint32(n)&MaxKeyedLength)
	le.PutUint32(s[11:], key)
	s[15] = byte(t)
	return s
}

// Keyed returns the memory of a keyed descriptor.
func (s *SGL) Keyed() (addr uint64, n int, key uint32) {
	return le.Uint64(s[:]), int(le.Uint32(s[8:]) & MaxKeyedLength), le.Uint32(s[11:])
}

// InCapsule describes n bytes from an offset behind the command of the capsule on.
func InCapsule(off uint64, n int) (s SGL) {
	le.PutUint64(s[:], off)
	le.PutUint32(s[8:], uint32(n))
	s[15] = byte(SGLInCapsule)
	return s
}

// InCapsule returns the range of a descriptor of data in the capsule.
func (s *SGL) InCapsule() (off uint64, n uint32) { return le.Uint64(s[:]), le.Uint32(s[8:]) }

// Completion is a completion queue entry (base 4.6). Over RDMA it is the response capsule.
type Completion struct {
	Result uint64 // the result of the command: 32 bits, or 64 bits for a property
	SQHead uint16
	SQID   uint16
	CID    uint16
	Status Status
	DNR    bool // do not retry
}

// Decode decodes a response capsule; false: it has another length.
func (c *Completion) Decode(b []byte) bool {
	if len(b) != CompletionSize {
		return false
	}
	s := le.Uint16(b[14:])
	*c = Completion{Result: le.Uint64(b), SQHead: le.Uint16(b[8:]), SQID: le.Uint16(b[10:]), CID: le.Uint16(b[12:]),
		Status: Status(s >> 1 & 0x7ff), DNR: s>>15 != 0}
	return true
}

// Append appends the entry's 16 bytes.
func (c *Completion) Append(b []byte) []byte {
	b = le.AppendUint64(b, c.Result)
	for _, v := range [...]uint16{c.SQHead, c.SQID, c.CID} {
		b = le.AppendUint16(b, v)
	}
	s := uint16(c.Status&0x7ff) << 1
	if c.DNR {
		s |= 1 << 15
	}
	return le.AppendUint16(b, s)
}
