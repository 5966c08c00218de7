// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"math"
)

// Block types, draft-ietf-opsawg-pcapng section 4.
const (
	blockSection    uint32 = 0x0a0d0d0a
	blockInterface  uint32 = 1
	blockStatistics uint32 = 5
	blockPacket     uint32 = 6 // enhanced packet
)

// Option codes; outside optEnd and optComment they mean something else in each
// type of block (draft-ietf-opsawg-pcapng sections 3.5 and 4.1 to 4.6).
const (
	optEnd     uint16 = 0
	optComment uint16 = 1

	optSectionOS          uint16 = 3
	optSectionApplication uint16 = 4

	optInterfaceName       uint16 = 2
	optInterfaceResolution uint16 = 9

	optPacketFlags   uint16 = 2
	optPacketDropped uint16 = 4

	optStatisticsReceived uint16 = 4
	optStatisticsDropped  uint16 = 5
)

const (
	byteOrderMagic    uint32 = 0x1a2b3c4d
	linkTypeEthernet  uint16 = 1   // the frame begins with an Ethernet header, and has no FCS
	linkTypeRaw       uint16 = 101 // the frame begins with an IPv4 or IPv6 header
	linkTypeERF       uint16 = 197 // the frame is a record of the ERF format
	nanoseconds       byte   = 9   // timestamps count units of 10^-9 s
	maxOptionLen             = math.MaxUint16
	unknownLen        uint64 = math.MaxUint64
	pcapngMajor       uint16 = 1
	packetHeaderLen          = 28
	blockTrailerLen          = 4
	optionHeaderLen          = 4
	packetFlagsLen           = 4
	packetDroppedLen         = 8
	unlimitedSnapshot uint32 = 0
)

// beginBlock appends a block's type and leaves room for its length.
//
//	0                   1                   2                   3
//	+---------------------------------------------------------------+
//	|                          Block Type                           |
//	+---------------------------------------------------------------+
//	|                      Block Total Length                       |
//	+---------------------------------------------------------------+
//	/              Block Body, padded to 32 bits                    /
//	+---------------------------------------------------------------+
//	|                      Block Total Length                       |
//	+---------------------------------------------------------------+
//
// draft-ietf-opsawg-pcapng section 3.1.
func beginBlock(b []byte, typ uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, typ)
	return append(b, 0, 0, 0, 0)
}

// endBlock closes the block that begins at b[start].
func endBlock(b []byte, start int) []byte {
	n := uint32(len(b) - start + blockTrailerLen)
	binary.LittleEndian.PutUint32(b[start+4:], n)
	return binary.LittleEndian.AppendUint32(b, n)
}

// pad4 is n rounded up to a multiple of four.
func pad4(n int) int { return (n + 3) &^ 3 }

// appendPadding pads the bytes since b[start] to 32 bits.
func appendPadding(b []byte, start int) []byte {
	n := len(b) - start
	return append(b, make([]byte, pad4(n)-n)...)
}

func beginOption(b []byte, code uint16, n int) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	return binary.LittleEndian.AppendUint16(b, uint16(n))
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = beginOption(b, code, len(value))
	start := len(b)
	return appendPadding(append(b, value...), start)
}

func appendOption32(b []byte, code uint16, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(beginOption(b, code, 4), v)
}

func appendOption64(b []byte, code uint16, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(beginOption(b, code, 8), v)
}

func endOptions(b []byte) []byte { return beginOption(b, optEnd, 0) }

// appendSection appends the section header block (section 4.1).
func appendSection(b []byte, os, application string) []byte {
	start := len(b)
	b = beginBlock(b, blockSection)
	b = binary.LittleEndian.AppendUint32(b, byteOrderMagic)
	b = binary.LittleEndian.AppendUint16(b, pcapngMajor)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint64(b, unknownLen)
	b = appendOption(b, optSectionOS, os)
	b = appendOption(b, optSectionApplication, application)
	return endBlock(endOptions(b), start)
}

// appendInterface appends an interface description block (section 4.2). Interfaces are numbered in
// the order of their blocks.
func appendInterface(b []byte, linkType uint16, name string) []byte {
	start := len(b)
	b = beginBlock(b, blockInterface)
	b = binary.LittleEndian.AppendUint16(b, linkType)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, unlimitedSnapshot)
	b = appendOption(b, optInterfaceName, name)
	b = appendOption(b, optInterfaceResolution, string([]byte{nanoseconds}))
	return endBlock(endOptions(b), start)
}

// appendTimestamp appends a time in the order that blocks have it: the upper 32
// bits first (section 4.3).
func appendTimestamp(b []byte, nanos int64) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(uint64(nanos)>>32))
	return binary.LittleEndian.AppendUint32(b, uint32(nanos))
}

// beginPacket appends an enhanced packet block up to its data, of which n bytes
// follow (section 4.3).
func beginPacket(b []byte, iface uint32, nanos int64, n int) []byte {
	b = beginBlock(b, blockPacket)
	b = binary.LittleEndian.AppendUint32(b, iface)
	b = appendTimestamp(b, nanos)
	b = binary.LittleEndian.AppendUint32(b, uint32(n)) // captured
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

// packetOptions are the options of one packet; a zero one is not written.
type packetOptions struct {
	direction Direction
	dropped   uint64 // packets dropped between the previous one and this
	comment   string
}

// size is the number of bytes that append adds.
func (o packetOptions) size() int {
	n := 0
	if o.direction != 0 {
		n += optionHeaderLen + packetFlagsLen
	}
	if o.dropped != 0 {
		n += optionHeaderLen + packetDroppedLen
	}
	if o.comment != "" {
		n += optionHeaderLen + pad4(len(o.comment))
	}
	if n != 0 {
		n += optionHeaderLen
	}
	return n
}

func (o packetOptions) append(b []byte) []byte {
	start := len(b)
	if o.direction != 0 {
		b = appendOption32(b, optPacketFlags, uint32(o.direction))
	}
	if o.dropped != 0 {
		b = appendOption64(b, optPacketDropped, o.dropped)
	}
	if o.comment != "" {
		b = appendOption(b, optComment, o.comment)
	}
	if len(b) != start {
		b = endOptions(b)
	}
	return b
}

// packetSize is the length of an enhanced packet block around n bytes of data.
func packetSize(n int, o packetOptions) int {
	return packetHeaderLen + pad4(n) + o.size() + blockTrailerLen
}

// appendStatistics appends an interface statistics block (section 4.6). The packets received
// include the dropped ones.
func appendStatistics(b []byte, iface uint32, nanos int64, received, dropped uint64) []byte {
	start := len(b)
	b = beginBlock(b, blockStatistics)
	b = binary.LittleEndian.AppendUint32(b, iface)
	b = appendTimestamp(b, nanos)
	b = appendOption64(b, optStatisticsReceived, received)
	b = appendOption64(b, optStatisticsDropped, dropped)
	return endBlock(endOptions(b), start)
}
