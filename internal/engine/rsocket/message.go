// SPDX-License-Identifier: Apache-2.0

package rsocket

import "fmt"

// Message is the immediate data of a WRITE, or the bytes of a SEND if a transport has no WRITE with
// immediate.
//
//	 31  29 28                                             0
//	+------+------------------------------------------------+
//	|  op  |                     data                       |
//	+------+------------------------------------------------+
type Message uint32

// Op is the type of a message.
type Op uint8

const (
	OpData  Op = 0 // this many bytes were written after the previous data
	OpWrite Op = 2 // never on the wire
	// data is the sequence number up to which messages may be sent; the target list may have a new entry
	OpSGL     Op = 4
	OpIOMap   Op = 6 // entry data of the table of mapped buffers was written
	OpControl Op = 7 // data is a [Control]
)

func (o Op) String() string {
	switch o {
	case OpData:
		return "DATA"
	case OpWrite:
		return "WRITE"
	case OpSGL:
		return "SGL"
	case OpIOMap:
		return "IOMAP_SGL"
	case OpControl:
		return "CTRL"
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// Control is the content of an OpControl message.
type Control uint32

const (
	Disconnect Control = 0 // nothing more is sent or received
	Keepalive  Control = 1 // nothing
	Shutdown   Control = 2 // the sender sends no more data
)

// maxData is the largest value of a message's data.
const maxData = 1<<29 - 1

// NewMessage returns a message; data beyond 29 bits is dropped.
func NewMessage(op Op, data uint32) Message { return Message(uint32(op)<<29 | data&maxData) }

// Op returns the type.
func (m Message) Op() Op { return Op(m >> 29) }

// Data returns the lower 29 bits.
func (m Message) Data() uint32 { return uint32(m) & maxData }

func (m Message) String() string {
	if m.Op() == OpControl {
		switch Control(m.Data()) {
		case Disconnect:
			return "CTRL DISCONNECT"
		case Keepalive:
			return "CTRL KEEPALIVE"
		case Shutdown:
			return "CTRL SHUTDOWN"
		}
	}
	return fmt.Sprintf("%v %d", m.Op(), m.Data())
}

// WordSize is the length of a message that is a SEND, in bytes.
const WordSize = 4

// PutWord writes a message that is a SEND, in the peer's byte order.
func (s *Stream) PutWord(b []byte, m Message) { s.remote.order.PutUint32(b, uint32(m)) }

// Word reads one. The order is the sender's own: peers do not convert it.
func (s *Stream) Word(b []byte) Message { return Message(s.remote.order.Uint32(b)) }
