// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"time"
)

// InfiniBand describes an InfiniBand packet in a recording.
type InfiniBand struct {
	At        time.Time // when it was sent or received; between 1970 and 2262
	Direction Direction // 0: unknown
	Comment   string    // shown beside the packet, at most 65,535 bytes; may be empty
}

// Lengths of an InfiniBand packet in bytes, LRH to VCRC: of the shortest, a raw one (IBTA 7.7.8), and of
// any that a record of ERF holds.
const (
	minInfiniBand = 8 + 12 + 2
	maxInfiniBand = 1<<16 - 1 - erfHeaderLen
)

// A record of the ERF format.
const (
	erfHeaderLen      = 16
	erfInfiniBand     = 21 // a type: LRH to VCRC
	erfVariableLength = 4  // a flag: the record is as long as its packet
)

// WriteInfiniBand records an InfiniBand packet from its LRH to its VCRC, the concatenation of the parts.
// The caller may reuse the parts on return. Its error is as with [Writer.WriteUDP].
func (w *Writer) WriteInfiniBand(h *InfiniBand, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n < minInfiniBand || n > maxInfiniBand {
		return errPacket
	}
	return w.write(ofInfiniBand, h.At, h.Direction, h.Comment, erfHeaderLen+n, func(b []byte) []byte {
		b = appendERFHeader(b, h.At, n)
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	})
}

// appendERFHeader appends the header of a record of an InfiniBand packet of n bytes.
//
//	0               1               2               3
//	+---------------------------------------------------------------+
//	|  timestamp, least significant byte first: 2^-32 s, 64 bits    |
//	|                                                               |
//	+---------------+---------------+-------------------------------+
//	|     type      |     flags     |       length of the record    |
//	+---------------+---------------+-------------------------------+
//	|         packets lost          |       length of the packet    |
//	+-------------------------------+-------------------------------+
func appendERFHeader(b []byte, at time.Time, n int) []byte {
	fraction := uint64(at.Nanosecond()) << 32 / uint64(time.Second)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.Unix())<<32|fraction)
	b = append(b, erfInfiniBand, erfVariableLength)
	b = binary.BigEndian.AppendUint16(b, uint16(erfHeaderLen+n))
	b = binary.BigEndian.AppendUint16(b, 0)
	return binary.BigEndian.AppendUint16(b, uint16(n))
}
