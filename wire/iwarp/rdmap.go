// SPDX-License-Identifier: Apache-2.0

package iwarp

import "encoding/binary"

// Lengths of RDMAP's own headers, which are the payload of untagged segments, in bytes.
const (
	ReadRequestLen    = 28
	AtomicRequestLen  = 52
	AtomicResponseLen = 12
	ImmediateLen      = 8
)

// ReadRequest requests data (RFC 5040 section 4.4).
type ReadRequest struct {
	SinkSTag STag // where the data is to go
	SinkTO   uint64
	Size     uint32 // bytes
	SrcSTag  STag
	SrcTO    uint64
}

// Decode reads the header. It returns false if b has another length.
func (r *ReadRequest) Decode(b []byte) bool {
	if len(b) != ReadRequestLen {
		return false
	}
	r.SinkSTag, r.SinkTO = STag(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SrcSTag, r.SrcTO = STag(binary.BigEndian.Uint32(b[16:])), binary.BigEndian.Uint64(b[20:])
	return true
}

// Append appends the header.
func (r *ReadRequest) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.SinkSTag))
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.SrcSTag))
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}

// AtomicOp is the operation of an atomic request (RFC 7306 section 5.2.1).
type AtomicOp uint8

const (
	FetchAdd    AtomicOp = 0 // adds Data to the 8 bytes
	CompareSwap AtomicOp = 2 // writes Data if the 8 bytes equal Compare
)

// AtomicRequest requests an atomic operation on 8 bytes (RFC 7306 section 5.2.1).
type AtomicRequest struct {
	Op          AtomicOp
	ID          uint32 // returned in the response
	STag        STag
	TO          uint64
	Data        uint64 // the addend, or the value to swap in
	Mask        uint64 // FetchAdd: bits whose carry is dropped; CompareSwap: bits that are swapped
	Compare     uint64
	CompareMask uint64 // bits that are compared
}

// Decode reads the header. It returns false if b has another length.
func (a *AtomicRequest) Decode(b []byte) bool {
	if len(b) != AtomicRequestLen {
		return false
	}
	a.Op, a.ID = AtomicOp(b[3]&15), binary.BigEndian.Uint32(b[4:])
	a.STag, a.TO = STag(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint64(b[12:])
	a.Data, a.Mask = binary.BigEndian.Uint64(b[20:]), binary.BigEndian.Uint64(b[28:])
	a.Compare, a.CompareMask = binary.BigEndian.Uint64(b[36:]), binary.BigEndian.Uint64(b[44:])
	return true
}

// Append appends the header.
func (a *AtomicRequest) Append(b []byte) []byte {
	b = append(b, 0, 0, 0, byte(a.Op)&15)
	b = binary.BigEndian.AppendUint32(b, a.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(a.STag))
	for _, v := range [...]uint64{a.TO, a.Data, a.Mask, a.Compare, a.CompareMask} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// AtomicResponse answers an atomic request (RFC 7306 section 5.2.2).
type AtomicResponse struct {
	ID       uint32
	Original uint64 // the value before the operation
}

// Decode reads the header. It returns false if b has another length.
func (a *AtomicResponse) Decode(b []byte) bool {
	if len(b) != AtomicResponseLen {
		return false
	}
	a.ID, a.Original = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	return true
}

// Append appends the header.
func (a *AtomicResponse) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, a.ID), a.Original)
}
