// SPDX-License-Identifier: Apache-2.0

// Package frame is the framing of SMB over TCP (MS-SMB2 2.1): before each message 4 bytes, of which the first is 0 and
// the others are its length in network byte order.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// HeaderSize is the length of a frame's header, in bytes.
const HeaderSize = 4

// ErrTooLong is in the error of a message that is longer than the peer takes.
var ErrTooLong = errors.New("longer than the peer takes")

// Append appends a message in its frame.
func Append(b, message []byte) []byte {
	b = binary.BigEndian.AppendUint32(slices.Grow(b, HeaderSize+len(message)), uint32(len(message)))
	return append(b, message...)
}

// Frame is a frame that is being put together.
type Frame struct{ b []byte }

// Add takes bytes of the frame from b, and returns the bytes behind it and whether the frame is whole. most bounds its
// message.
func (f *Frame) Add(b []byte, most int) (rest []byte, whole bool, err error) {
	if need := HeaderSize - len(f.b); need > 0 {
		k := min(need, len(b))
		f.b, b = append(f.b, b[:k]...), b[k:]
		if len(f.b) < HeaderSize {
			return b, false, nil
		}
	}
	head := binary.BigEndian.Uint32(f.b)
	switch n := int(head & 0xffffff); {
	case head>>24 != 0:
		return nil, false, fmt.Errorf("a frame of type %#x: only messages, of type 0, are sent", head>>24)
	case n == 0:
		return nil, false, errors.New("a frame of 0 bytes: a message has one at least")
	case n > most:
		return nil, false, fmt.Errorf("a frame of %d bytes is %w, which is %d", n, ErrTooLong, most)
	default:
		k := min(HeaderSize+n-len(f.b), len(b))
		f.b, b = append(f.b, b[:k]...), b[k:]
		return b, len(f.b) == HeaderSize+n, nil
	}
}

// Take returns the message of a whole frame, until the next Add.
func (f *Frame) Take() []byte {
	b := f.b[HeaderSize:]
	f.b = f.b[:0]
	return b
}
