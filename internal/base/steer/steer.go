// SPDX-License-Identifier: Apache-2.0

// Package steer says which of several devices that share an address, or an adapter, a management
// datagram is for. Each of them has a slot, whose number is on top of the queue pair numbers,
// communication ids and transaction ids that the device issues.
package steer

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

const (
	// Bits is how many top bits of queue pair numbers and ids name a slot.
	Bits = 4
	// Slots is how many devices can share an address.
	Slots = 1 << Bits
)

// Group is the devices that share an address.
type Group interface {
	// IsActive reports whether a slot is taken.
	IsActive(slot int) bool
	// Owner returns the slot that has claimed a service id.
	Owner(service uint64) (slot int, ok bool)
	// Server returns a slot with an agent for a management class, or -1.
	Server(class uint8) int
}

// SlotOfQPN returns the slot of a queue pair's device.
func SlotOfQPN(n ib.QPN) int { return int(n >> (24 - Bits)) }

// SlotOf returns the slot of the device that issued a communication id, or a transaction id of which
// these are the upper 32 bits.
func SlotOf(id uint32) int { return int(id >> (32 - Bits)) }

// Agent returns the slot of the device whose agent a management datagram is for, or -1. A response is
// for the device that issued its transaction id. Of the messages of connection managers (IBTA 12.6), a
// request is for the device that has claimed its service id, and the others are for the device that issued
// the communication id. Everything else is for any device that has an agent for the class.
func Agent(g Group, datagram []byte) int {
	var h mad.Header
	if len(datagram) < mad.Size || !h.Decode(datagram) {
		return -1
	}
	if h.Method.Answers() {
		if slot := SlotOf(uint32(h.TID >> 32)); g.IsActive(slot) {
			return slot
		}
		return -1
	}
	if h.Class != mad.ClassCM {
		return g.Server(uint8(h.Class))
	}
	data := datagram[mad.HeaderLen:]
	id := binary.BigEndian.Uint32(data[4:]) // the receiver's
	switch h.Attribute {
	case mad.AttrREQ, mad.AttrSIDRREQ:
		if slot, ok := g.Owner(binary.BigEndian.Uint64(data[8:])); ok && g.IsActive(slot) {
			return slot
		}
		return g.Server(uint8(h.Class))
	case mad.AttrSIDRREP:
		id = binary.BigEndian.Uint32(data)
	}
	if slot := SlotOf(id); g.IsActive(slot) {
		return slot
	}
	return g.Server(uint8(h.Class))
}
