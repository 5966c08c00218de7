// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"bytes"
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// kind is the request of a control message.
type kind uint32

const (
	kindError kind = iota // of answers
	kindConnect
	kindDisconnect
	kindPort
	kindVendor
	kindGID
	kindGUID
	kindNodeInfo
	kindPortInfo
	kindSetSM
	kindPKeys
)

const (
	magic      = 0xdeadbeef
	ctlDataLen = 64
	ctlLen     = 16 + ctlDataLen
)

// ctl is a control message, and its answer.
//
//	+--------+--------+--------+--------+-----------------+
//	| magic  | client |  kind  | length | data (64 bytes) |
//	+--------+--------+--------+--------+-----------------+
type ctl struct {
	client uint32
	kind   kind
	length uint32
	data   [ctlDataLen]byte
}

func (c *ctl) decode(b []byte) bool {
	if len(b) != ctlLen || binary.NativeEndian.Uint32(b) != magic {
		return false
	}
	c.client, c.kind = binary.NativeEndian.Uint32(b[4:]), kind(binary.NativeEndian.Uint32(b[8:]))
	c.length, c.data = binary.NativeEndian.Uint32(b[12:]), [ctlDataLen]byte(b[16:])
	return true
}

func (c *ctl) append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, magic)
	b = binary.NativeEndian.AppendUint32(b, c.client)
	b = binary.NativeEndian.AppendUint32(b, uint32(c.kind))
	b = binary.NativeEndian.AppendUint32(b, c.length)
	return append(b, c.data[:]...)
}

// client identifies a client that connects: the data of a message of that kind, and of its answer.
type client struct {
	id   uint32 // the process's; in the answer the client's number
	qp   uint32
	sm   bool   // requests to queue pairs 0 and 1 are for it
	node string // where to attach, by name or description; empty: anywhere
}

const clientNodeLen = 32

func (c *client) decode(b *[ctlDataLen]byte) {
	c.id, c.qp = binary.NativeEndian.Uint32(b[:]), binary.NativeEndian.Uint32(b[4:])
	c.sm = binary.NativeEndian.Uint32(b[8:]) != 0
	node, _, _ := bytes.Cut(b[12:12+clientNodeLen], []byte{0})
	c.node = string(node)
}

func (c *client) put(b *[ctlDataLen]byte) {
	binary.NativeEndian.PutUint32(b[:], c.id)
	clear(b[12 : 12+clientNodeLen])
	copy(b[12:12+clientNodeLen-1], c.node)
}

// datagramLen is the length of a message with a management datagram.
const datagramLen = 32 + mad.Size

// timedOut is the status of a request without an answer: Linux's ETIMEDOUT.
const timedOut = 110

// Datagram is a management datagram on its way.
type Datagram struct {
	SLID, DLID uint16 // from a client SLID is 0: the port's, or the permissive one
	SQP, DQP   ib.QPN
	status     uint32
	length     int // bytes of MAD that count; 0: all
	MAD        [mad.Size]byte
}

// decode reads a message:
//
//	+------+------+-----+-----+--------+-----+----------------+-----------------+
//	| dlid | slid | dqp | sqp | status | pad | length, 8 bytes | MAD (256 bytes) |
//	+------+------+-----+-----+--------+-----+----------------+-----------------+
//
// LIDs are the first two bytes of their words, in network order, as is all else but the pad.
func (d *Datagram) decode(b []byte) bool {
	if len(b) != datagramLen {
		return false
	}
	d.DLID, d.SLID = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[4:])
	d.DQP, d.SQP = ib.QPN(binary.BigEndian.Uint32(b[8:])&0xffffff), ib.QPN(binary.BigEndian.Uint32(b[12:])&0xffffff)
	d.status = binary.BigEndian.Uint32(b[16:])
	n := binary.BigEndian.Uint64(b[24:])
	if n > mad.Size {
		return false
	}
	d.length = int(n)
	d.MAD = [mad.Size]byte(b[32:])
	return true
}

func (d *Datagram) append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, d.DLID), 0, 0)
	b = append(binary.BigEndian.AppendUint16(b, d.SLID), 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(d.DQP))
	b = binary.BigEndian.AppendUint32(b, uint32(d.SQP))
	b = binary.BigEndian.AppendUint32(b, d.status)
	b = append(b, 0, 0, 0, 0)
	n := d.length
	if n == 0 {
		n = mad.Size
	}
	b = binary.BigEndian.AppendUint64(b, uint64(n))
	return append(b, d.MAD[:]...)
}
