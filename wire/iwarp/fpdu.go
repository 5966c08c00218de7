// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// An FPDU is the frame that MPA puts around a DDP segment (RFC 5044 section 4.1):
//
//	+-------------------------------+
//	|  ULPDU_Length (2)  |  ULPDU … |
//	+-------------------------------+
//	|  … |  pad (0 to 3)            |
//	+-------------------------------+
//	|  CRC (4)                      |
//	+-------------------------------+
//
// Its length is a multiple of 4.
const (
	LengthLen = 2
	CRCLen    = 4
	MaxULPDU  = 1<<16 - 1 // the largest value of ULPDU_Length
)

// PadLen returns the number of bytes between a ULPDU of n bytes and the CRC.
func PadLen(n int) int { return -(LengthLen + n) & 3 }

// FPDULen returns the length of the FPDU of a ULPDU of n bytes, without markers.
func FPDULen(n int) int { return LengthLen + n + PadLen(n) + CRCLen }

// UpdateCRC continues a CRC32C over b. The CRC starts with 0 and covers an FPDU from ULPDU_Length,
// or from the marker right before it, up to the CRC field (RFC 5044 section 4.4).
func UpdateCRC(state uint32, b []byte) uint32 { return crc.UpdateCastagnoli(state, b) }

// CopyCRC copies src to dst and continues the CRC over the stored bytes: the CRC fits the copy even
// if src changes meanwhile.
func CopyCRC(state uint32, dst, src []byte) uint32 { return crc.CopyCastagnoli(state, dst, src) }

// PutCRC stores a CRC in wire order: the least significant byte first, as in iSCSI (RFC 3720
// section 12.1).
func PutCRC(b []byte, sum uint32) { binary.LittleEndian.PutUint32(b, sum) }

// GetCRC reads what PutCRC stored.
func GetCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// Markers are at every 512th byte of the stream, the first of them before the first FPDU (RFC 5044
// section 4.3).
const (
	MarkerInterval = 512
	MarkerLen      = 4
)

// Marker points back from a marker to the ULPDU_Length field of the FPDU that contains it: the
// distance in bytes of the stream, including other markers. 0 means that an FPDU begins right after
// it.
type Marker uint16

// Decode reads a marker.
func (m *Marker) Decode(b []byte) bool {
	if len(b) < MarkerLen {
		return false
	}
	*m = Marker(binary.BigEndian.Uint16(b[2:]))
	return true
}

// Append appends a marker.
func (m Marker) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0, 0), uint16(m))
}
