// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Remote is memory of the peer that a one-sided operation accesses. The owner of the memory tells the peer:
// in a message, in the private data of a connection, in a file or on paper. Its text is the address and the
// key in hexadecimal, as "0x7f6a1c000000:0x1a2b". Its binary form is the address in 8 bytes and the key in 4,
// both in network byte order, as a RETH has them (IBTA 9.3.3).
type Remote struct {
	Addr uint64
	Key  Key
}

// RemoteSize is the length of the binary form of a [Remote], in bytes.
const RemoteSize = 12

var (
	_ encoding.TextAppender      = Remote{}
	_ encoding.TextMarshaler     = Remote{}
	_ encoding.TextUnmarshaler   = (*Remote)(nil)
	_ encoding.BinaryAppender    = Remote{}
	_ encoding.BinaryMarshaler   = Remote{}
	_ encoding.BinaryUnmarshaler = (*Remote)(nil)
)

// At returns the same region off bytes further.
func (r Remote) At(off uint64) Remote { return Remote{Addr: r.Addr + off, Key: r.Key} }

// String returns the text.
func (r Remote) String() string {
	b, _ := r.AppendText(nil)
	return string(b)
}

// AppendText appends the text. The error is nil.
func (r Remote) AppendText(b []byte) ([]byte, error) {
	return fmt.Appendf(b, "%#x:%#x", r.Addr, uint32(r.Key)), nil
}

// MarshalText returns the text. The error is nil.
func (r Remote) MarshalText() ([]byte, error) { return r.AppendText(nil) }

// UnmarshalText reads the text. Numbers may also be decimal.
func (r *Remote) UnmarshalText(text []byte) error {
	addr, key, ok := strings.Cut(string(text), ":")
	a, err := strconv.ParseUint(addr, 0, 64)
	k, err2 := strconv.ParseUint(key, 0, 32)
	if !ok || err != nil || err2 != nil {
		return fmt.Errorf("verbs: %.64q is no remote address: want ADDRESS:KEY, as in 0x7f6a1c000000:0x1a2b", text)
	}
	*r = Remote{Addr: a, Key: Key(k)}
	return nil
}

// AppendBinary appends [RemoteSize] bytes. The error is nil.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, r.Addr), uint32(r.Key)), nil
}

// MarshalBinary returns the [RemoteSize] bytes of the binary form. The error is nil.
func (r Remote) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary reads [RemoteSize] bytes.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) != RemoteSize {
		return fmt.Errorf("verbs: a remote address of %d bytes: it has %d", len(b), RemoteSize)
	}
	*r = Remote{Addr: binary.BigEndian.Uint64(b), Key: Key(binary.BigEndian.Uint32(b[8:]))}
	return nil
}
