// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sizes that rping takes: its text with the highest number must fit, and its buffers are
// of 64 KiB.
const (
	pingMinSize = 26
	pingMaxSize = 1<<16 - 1
)

// pingMessageLen is the length of rping's only message: an address (8 bytes), a key (4)
// and a length (4), big endian.
const pingMessageLen = 16

// pingMessage is what client and server of rping send: the client where its data is or
// shall go, the server, with nothing in it, that the client may go on.
type pingMessage struct {
	Remote verbs.Remote
	Size   uint32
}

func (m pingMessage) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Remote.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Remote.Key))
	return binary.BigEndian.AppendUint32(b, m.Size)
}

func (m *pingMessage) decode(b []byte) error {
	if len(b) != pingMessageLen {
		return fmt.Errorf("the peer sent %d bytes where a message has %d: is it `ramjet ping` or rping?", len(b), pingMessageLen)
	}
	m.Remote.Addr = binary.BigEndian.Uint64(b)
	m.Remote.Key = verbs.Key(binary.BigEndian.Uint32(b[8:]))
	m.Size = binary.BigEndian.Uint32(b[12:])
	return nil
}

// fillPing writes the data of a ping as rping does: its number as text, then the
// characters from A to z in turn, starting one further with each ping, and a zero byte.
func fillPing(b []byte, number int) {
	const first, count = 'A', 'z' - 'A' + 1
	n := copy(b, fmt.Appendf(nil, "rdma-ping-%d: ", int32(number)))
	for i := range b[n:] {
		b[n+i] = byte(first + (number+i)%count)
	}
	b[len(b)-1] = 0
}

// pingText is the data as text: what comes before the first zero byte.
func pingText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// comparePing says where data differs from what was expected.
func comparePing(got, want []byte, number int) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("ping %d: the data is not what was sent: byte %d of %d is %#02x instead of %#02x", number, i, len(want), got[i], want[i])
		}
	}
	return nil
}
