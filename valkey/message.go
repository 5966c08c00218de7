// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"encoding/binary"
	"strconv"
)

// MessageSize is the length of every control message, in bytes.
const MessageSize = 32

// Opcode is the kind of a control message.
type Opcode uint16

const (
	GetServerFeature   Opcode = iota // a client asks which features the server has; the answer has the same opcode
	SetClientFeature                 // a client chooses features
	Keepalive                        // there is somebody
	RegisterXferMemory               // where the receiver's sender is to write next
)

var opcodeNames = [...]string{"GetServerFeature", "SetClientFeature", "Keepalive", "RegisterXferMemory"}

// String returns the name in Valkey's documentation.
func (o Opcode) String() string {
	if int(o) < len(opcodeNames) {
		return opcodeNames[o]
	}
	return "opcode " + strconv.Itoa(int(o))
}

// Message is a control message. All fields are in network byte order on the wire, and fields that an opcode does not
// use are zero:
//
//	bytes   0-1     2-3     4-15  16-23               24-27   28-31
//	feature opcode  select  -     -                   features (24-31)
//	memory  opcode  -       -     address             length  key
type Message struct {
	Opcode   Opcode
	Select   uint16 // GetServerFeature, SetClientFeature: which 64 features
	Features uint64 // GetServerFeature, SetClientFeature: a bit for each
	Addr     uint64 // RegisterXferMemory: of the first byte
	Length   uint32 // RegisterXferMemory: bytes
	Key      uint32 // RegisterXferMemory: the remote key
}

// Decode reads a message. It returns false if b has not its length. An opcode that does not exist is
// kept.
func (m *Message) Decode(b []byte) bool {
	if len(b) != MessageSize {
		return false
	}
	*m = Message{Opcode: Opcode(binary.BigEndian.Uint16(b))}
	switch m.Opcode {
	case GetServerFeature, SetClientFeature:
		m.Select, m.Features = binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint64(b[24:])
	case RegisterXferMemory:
		m.Addr = binary.BigEndian.Uint64(b[16:])
		m.Length, m.Key = binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])
	}
	return true
}

// Append appends the message.
func (m Message) Append(b []byte) []byte {
	var w [MessageSize]byte
	binary.BigEndian.PutUint16(w[:], uint16(m.Opcode))
	switch m.Opcode {
	case GetServerFeature, SetClientFeature:
		binary.BigEndian.PutUint16(w[2:], m.Select)
		binary.BigEndian.PutUint64(w[24:], m.Features)
	case RegisterXferMemory:
		binary.BigEndian.PutUint64(w[16:], m.Addr)
		binary.BigEndian.PutUint32(w[24:], m.Length)
		binary.BigEndian.PutUint32(w[28:], m.Key)
	}
	return append(b, w[:]...)
}
