// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"net/netip"
)

// Processes say to each other, through the socket of a link:
//
//	hello      the sender's identity; with the segment of the link, from the side that dials, and its doorbell, which
//	           also wakes it
//	frame      bytes of the set-up, which is MPA's
//	held       that a request in the set-up was seen, and waits for a queue pair that is not ready
//	refused    that there is no room for the link, and which limit says so
//	directory  the directory of the protection domain; with it
//	segment    memory that a region is at the start of; with it
//	drop       that memory is no longer used
//
// A message begins with its kind. Both sides run on one processor, so numbers are in its byte order.
type messageKind byte

const (
	messageHello messageKind = iota + 1
	messageFrame
	messageDirectory
	messageSegment
	messageDrop
	messageHeld
	messageRefused
)

// magic is at the start of a hello. The last byte is the version of all that is shared.
const magic = "RJSHM\x08"

// message is the contents of a message.
type message struct {
	kind    messageKind
	slot    uint32         // hello: in the sender's doorbell
	from    netip.AddrPort // hello
	probe   uint64         // hello: address of a word in the sender's process
	value   uint64         // hello: the word's value
	frame   []byte
	segment uint64 // segment, drop
	limit   limit  // refused
}

// first reports whether messages of a kind are the first of a link.
func (k messageKind) first() bool { return k == messageHello || k == messageRefused }

// files returns how many descriptors a message of a kind comes with. dials says that it is of the side that dials.
func (k messageKind) files(dials bool) int {
	switch k {
	case messageHello:
		if dials {
			return 2
		}
		return 1
	case messageDirectory, messageSegment:
		return 1
	}
	return 0
}

func (l *message) append(b []byte) []byte {
	b = append(b, byte(l.kind))
	switch l.kind {
	case messageHello:
		b = append(b, magic...)
		b = binary.NativeEndian.AppendUint32(b, l.slot)
		b = binary.NativeEndian.AppendUint16(b, l.from.Port())
		a := l.from.Addr().As16()
		b = append(b, a[:]...)
		b = binary.NativeEndian.AppendUint64(b, l.probe)
		b = binary.NativeEndian.AppendUint64(b, l.value)
	case messageFrame:
		b = append(b, l.frame...)
	case messageRefused:
		b = append(b, byte(l.limit))
	case messageSegment, messageDrop:
		b = binary.NativeEndian.AppendUint64(b, l.segment)
	}
	return b
}

// decode reads a message. It returns false if there is no such message.
func (l *message) decode(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	*l = message{kind: messageKind(b[0])}
	b = b[1:]
	switch l.kind {
	case messageHello:
		if len(b) != len(magic)+4+2+16+8+8 || string(b[:len(magic)]) != magic {
			return false
		}
		b = b[len(magic):]
		l.slot = binary.NativeEndian.Uint32(b)
		l.from = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[6:22])).Unmap(), binary.NativeEndian.Uint16(b[4:]))
		l.probe, l.value = binary.NativeEndian.Uint64(b[22:]), binary.NativeEndian.Uint64(b[30:])
		return true
	case messageFrame:
		l.frame = b
		return len(b) > 0
	case messageRefused:
		if len(b) != 1 {
			return false
		}
		l.limit = limit(b[0])
		return true
	case messageSegment, messageDrop:
		if len(b) != 8 {
			return false
		}
		l.segment = binary.NativeEndian.Uint64(b)
		return true
	}
	return (l.kind == messageDirectory || l.kind == messageHeld) && len(b) == 0
}
