// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sizes that rping accepts: its text with the highest number must fit, and its buffers have 64 KiB.
const (
	MinSize = 26
	MaxSize = 1<<16 - 1
)

// messageLen is the length of rping's only message: an address (8 bytes), a key (4)
// and a length (4), big endian.
const messageLen = 16

// message is the message that client and server of rping send: the client where its data is or shall go, the
// server an empty one that lets the client continue.
type message struct {
	Remote verbs.Remote
	Size   uint32
}

func (m message) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Remote.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Remote.Key))
	return binary.BigEndian.AppendUint32(b, m.Size)
}

func (m *message) decode(b []byte) error {
	if len(b) != messageLen {
		return fmt.Errorf("the peer sent %d bytes where a message has %d: is it `ramjet ping` or rping?", len(b),
			messageLen)
	}
	m.Remote.Addr = binary.BigEndian.Uint64(b)
	m.Remote.Key = verbs.Key(binary.BigEndian.Uint32(b[8:]))
	m.Size = binary.BigEndian.Uint32(b[12:])
	return nil
}

// fill writes the data of a ping as rping does: its number as text, then the characters from A to z
// in turn, starting one further with each ping, and a zero byte.
func fill(b []byte, number int) {
	const first, count = 'A', 'z' - 'A' + 1
	n := copy(b, fmt.Appendf(nil, "rdma-ping-%d: ", int32(number)))
	for i := range b[n:] {
		b[n+i] = byte(first + (number+i)%count)
	}
	b[len(b)-1] = 0
}

// textOf returns the data as text: the bytes before the first zero byte.
func textOf(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// compare reports where data differs from the expected data.
func compare(got, want []byte, number int) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("ping %d: the data is not what was sent: byte %d of %d is %#02x instead of %#02x", number,
				i, len(want), got[i], want[i])
		}
	}
	return nil
}
