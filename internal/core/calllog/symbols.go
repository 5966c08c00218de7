// SPDX-License-Identifier: Apache-2.0

package calllog

import "github.com/ramjet-rdma/ramjet/internal/core/cnames"

// Named returns a number of a type of [Calls] as constants of C, see [cnames.Of].
func Named(typ string, v uint64) Symbol { return Symbol(cnames.Of(typ, v)) }

// SocketOption returns the name of an option of a level, both of rsetsockopt.
func SocketOption(level, option uint64) Symbol { return Symbol(cnames.SocketOption(level, option)) }

// Scalar returns an argument of C, passed in 64 bits, whose type has no memory behind it. ok is false for other types.
func Scalar(typ string, v uint64) (value any, ok bool) {
	switch typ {
	case "int":
		return int32(v), true
	case "u":
		return v, true
	case "u8":
		return uint8(v), true
	case "u16":
		return uint16(v), true
	case "be16":
		return Hex(uint16(v)>>8 | uint16(v)<<8), true
	case "offset":
		return int64(v), true
	case "hex":
		return Hex(v), true
	case "ptr":
		return Pointer(v), true
	}
	if cnames.Has(typ) {
		return Named(typ, uint64(uint32(v))), true
	}
	return nil, false
}

// Pointer returns an address, or NULL.
func Pointer(v uint64) any {
	if v == 0 {
		return nil
	}
	return Hex(v)
}
