// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Placement is the guarantee that a FLUSH requests: a set of bits (annex A19).
type Placement uint8

// The placement types.
const (
	PlacementGlobal     Placement = 1 << 0 // visible to every observer of the memory
	PlacementPersistent Placement = 1 << 1 // survives a loss of power
)

// Selectivity says how much a FLUSH covers (annex A19).
type Selectivity uint8

// The selectivity levels; 2 and 3 are reserved.
const (
	SelectRange  Selectivity = 0 // the range in the RETH
	SelectRegion Selectivity = 1 // the whole memory region of the R_Key
)

// FETH is the flush extended transport header; a RETH with the range follows
// it (annex A19).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------+---+-------+
//	|                      Resv26                       |SEL|  PLT  |
//	+---------------------------------------------------+---+-------+
type FETH struct {
	Resv26      uint32
	Selectivity Selectivity // 2 bits
	Placement   Placement   // 4 bits
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *FETH) Decode(b []byte) bool {
	if len(b) < FETHLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	h.Resv26 = w >> 6
	h.Selectivity = Selectivity(w>>4) & 3
	h.Placement = Placement(w) & 15
	return true
}

// Append appends the header to b.
func (h FETH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, h.Resv26<<6|uint32(h.Selectivity&3)<<4|uint32(h.Placement&15))
}
