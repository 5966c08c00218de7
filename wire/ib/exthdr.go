// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Lengths of the extended transport headers in bytes.
const (
	DETHLen         = 8
	XRCETHLen       = 4
	FETHLen         = 4
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
)

// DETH is the datagram extended transport header (section 9.3.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                             Q_Key                             |
//	+---------------+-----------------------------------------------+
//	|     Resv8     |                  Source QP                    |
//	+---------------+-----------------------------------------------+
type DETH struct {
	QKey  QKey
	Resv8 uint8
	SrcQP QPN
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *DETH) Decode(b []byte) bool {
	if len(b) < DETHLen {
		return false
	}
	w := binary.BigEndian.Uint32(b[4:])
	h.QKey = QKey(binary.BigEndian.Uint32(b))
	h.Resv8 = uint8(w >> 24)
	h.SrcQP = QPN(w & 0xffffff)
	return true
}

// Append appends the header to b.
func (h DETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.QKey))
	return binary.BigEndian.AppendUint32(b, uint32(h.Resv8)<<24|uint32(h.SrcQP&0xffffff))
}

// XRCETH is the extended reliable connection header: it names the shared
// receive queue at the responder (annex A14).
//
//	+---------------+-----------------------------------------------+
//	|     Resv8     |                    XRCSRQ                     |
//	+---------------+-----------------------------------------------+
type XRCETH struct {
	Resv8 uint8
	SRQN  uint32 // 24 bits
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *XRCETH) Decode(b []byte) bool {
	if len(b) < XRCETHLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	h.Resv8 = uint8(w >> 24)
	h.SRQN = w & 0xffffff
	return true
}

// Append appends the header to b.
func (h XRCETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.Resv8)<<24|h.SRQN&0xffffff)
}

// RETH is the RDMA extended transport header (section 9.3.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                     Virtual address 63:32                     |
//	+---------------------------------------------------------------+
//	|                     Virtual address 31:0                      |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                          DMA length                           |
//	+---------------------------------------------------------------+
type RETH struct {
	VA     uint64
	RKey   Key
	DMALen uint32 // bytes of the whole message
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *RETH) Decode(b []byte) bool {
	if len(b) < RETHLen {
		return false
	}
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = Key(binary.BigEndian.Uint32(b[8:]))
	h.DMALen = binary.BigEndian.Uint32(b[12:])
	return true
}

// Append appends the header to b.
func (h RETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.VA)
	return binary.BigEndian.AppendUint64(b, uint64(h.RKey)<<32|uint64(h.DMALen))
}

// AtomicETH is the atomic extended transport header (section 9.3.4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                     Virtual address 63:32                     |
//	+---------------------------------------------------------------+
//	|                     Virtual address 31:0                      |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                   Swap (or add) data 63:32                    |
//	+---------------------------------------------------------------+
//	|                   Swap (or add) data 31:0                     |
//	+---------------------------------------------------------------+
//	|                      Compare data 63:32                       |
//	+---------------------------------------------------------------+
//	|                      Compare data 31:0                        |
//	+---------------------------------------------------------------+
type AtomicETH struct {
	VA      uint64
	RKey    Key
	Swap    uint64 // the value to swap in, or the addend
	Compare uint64 // not used by fetch and add
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *AtomicETH) Decode(b []byte) bool {
	if len(b) < AtomicETHLen {
		return false
	}
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = Key(binary.BigEndian.Uint32(b[8:]))
	h.Swap = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
	return true
}

// Append appends the header to b.
func (h AtomicETH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.VA)
	b = binary.BigEndian.AppendUint32(b, uint32(h.RKey))
	b = binary.BigEndian.AppendUint64(b, h.Swap)
	return binary.BigEndian.AppendUint64(b, h.Compare)
}

// AtomicAckETH is the atomic acknowledge extended transport header: the value
// that the atomic operation found (section 9.3).
//
//	+---------------------------------------------------------------+
//	|                  Original remote data 63:32                   |
//	+---------------------------------------------------------------+
//	|                  Original remote data 31:0                    |
//	+---------------------------------------------------------------+
type AtomicAckETH struct {
	Orig uint64
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *AtomicAckETH) Decode(b []byte) bool {
	if len(b) < AtomicAckETHLen {
		return false
	}
	h.Orig = binary.BigEndian.Uint64(b)
	return true
}

// Append appends the header to b.
func (h AtomicAckETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(b, h.Orig)
}

// ImmDt is immediate data: four bytes that the transport carries for the consumer, here as a number
// in network byte order (section 9.3).
//
//	+---------------------------------------------------------------+
//	|                        Immediate data                         |
//	+---------------------------------------------------------------+
type ImmDt uint32

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *ImmDt) Decode(b []byte) bool {
	if len(b) < ImmDtLen {
		return false
	}
	*h = ImmDt(binary.BigEndian.Uint32(b))
	return true
}

// Append appends the header to b.
func (h ImmDt) Append(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(h)) }

// IETH is the invalidate extended transport header: the key that a SEND with invalidate invalidates
// at the responder (section 9.3).
//
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
type IETH struct {
	RKey Key
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *IETH) Decode(b []byte) bool {
	if len(b) < IETHLen {
		return false
	}
	h.RKey = Key(binary.BigEndian.Uint32(b))
	return true
}

// Append appends the header to b.
func (h IETH) Append(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(h.RKey)) }
