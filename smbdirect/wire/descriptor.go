// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// DescriptorSize is the length of a Buffer Descriptor V1 in bytes.
const DescriptorSize = 16

// ErrDescriptor is in the errors of [DecodeDescriptors].
var ErrDescriptor = errors.New("malformed buffer descriptors")

// Descriptor is a Buffer Descriptor V1: memory of a peer (2.2.3.1).
type Descriptor struct {
	Offset uint64 // the address of the first byte
	Token  uint32 // the remote key
	Length uint32 // bytes
}

// DecodeDescriptors reads an array of at most most descriptors and returns how many bytes they describe.
func DecodeDescriptors(b []byte, most int) (ds []Descriptor, total uint64, err error) {
	switch n := len(b) / DescriptorSize; {
	case len(b)%DescriptorSize != 0 || n == 0:
		return nil, 0, fmt.Errorf("%w: %d bytes, each has %d", ErrDescriptor, len(b), DescriptorSize)
	case n > most:
		return nil, 0, fmt.Errorf("%w: %d of them, at most %d are taken", ErrDescriptor, n, most)
	}
	le := binary.LittleEndian
	ds = make([]Descriptor, len(b)/DescriptorSize)
	for i := range ds {
		d := b[i*DescriptorSize:]
		ds[i] = Descriptor{Offset: le.Uint64(d), Token: le.Uint32(d[8:]), Length: le.Uint32(d[12:])}
		if ds[i].Offset > math.MaxUint64-uint64(ds[i].Length) {
			return nil, 0, fmt.Errorf("%w: %d bytes at %#x, beyond the last address", ErrDescriptor, ds[i].Length,
				ds[i].Offset)
		}
		total += uint64(ds[i].Length)
	}
	return ds, total, nil
}

// Append appends the descriptor.
func (d Descriptor) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, d.Offset)
	b = le.AppendUint32(b, d.Token)
	return le.AppendUint32(b, d.Length)
}
