// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Lengths of a Data Transfer message in bytes.
const (
	HeaderSize = 20 // all of a message without data
	DataOffset = 24 // where data begins in the messages that [Transfer.AppendHeader] makes: 8-byte aligned
)

// ResponseRequested asks for a message in response, promptly: for keep-alive.
const ResponseRequested uint16 = 0x0001

// ErrTransfer is in the errors of [Transfer.Decode].
var ErrTransfer = errors.New("a malformed Data Transfer message")

// Transfer is the header of a Data Transfer message (2.2.3).
type Transfer struct {
	CreditsRequested    uint16 // in all, including the ones that were granted before
	CreditsGranted      uint16 // in addition
	Flags               uint16
	RemainingDataLength uint32 // upper-layer bytes of the fragments that follow
}

// Decode reads a message and returns its data, which is within b. The checks are the ones of 3.1.5.8 that need nothing
// but the message.
func (t *Transfer) Decode(b []byte) (data []byte, err error) {
	if len(b) < HeaderSize {
		return nil, fmt.Errorf("%w: %d bytes, it has at least %d", ErrTransfer, len(b), HeaderSize)
	}
	le := binary.LittleEndian
	*t = Transfer{CreditsRequested: le.Uint16(b), CreditsGranted: le.Uint16(b[2:]), Flags: le.Uint16(b[4:]),
		RemainingDataLength: le.Uint32(b[8:])}
	offset, length := le.Uint32(b[12:]), le.Uint32(b[16:])
	switch {
	case t.CreditsRequested == 0:
		return nil, fmt.Errorf("%w: it requests 0 credits", ErrTransfer)
	case offset%8 != 0:
		return nil, fmt.Errorf("%w: DataOffset %d is no multiple of 8", ErrTransfer, offset)
	case uint64(offset)+uint64(length) > uint64(len(b)):
		return nil, fmt.Errorf("%w: DataOffset %d and DataLength %d, beyond the %d bytes of the message", ErrTransfer,
			offset, length, len(b))
	case length > 0 && offset < HeaderSize:
		return nil, fmt.Errorf("%w: DataOffset %d, within the header", ErrTransfer, offset)
	}
	return b[offset:][:length], nil
}

// AppendHeader appends the header of a message with n bytes of data, and padding up to the data. Without data it has
// no padding.
func (t *Transfer) AppendHeader(b []byte, n int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, t.CreditsRequested)
	b = le.AppendUint16(b, t.CreditsGranted)
	b = le.AppendUint16(b, t.Flags)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, t.RemainingDataLength)
	if n == 0 {
		return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	b = le.AppendUint32(b, DataOffset)
	b = le.AppendUint32(b, uint32(n))
	return append(b, 0, 0, 0, 0)
}
