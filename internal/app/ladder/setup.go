// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// setup is a connection as the connection manager's messages tell of it.
type setup struct {
	fabric     capture.Fabric
	a, b       capture.Host
	qpA, qpB   ib.QPN
	hasA, hasB bool
	idA        mad.CommID // A's ID of the connection
	mtu        int
	conv       *Conversation
	nvme       *nvmeQueue // nil: it is not one of NVMe

	retries      uint8 // of both ends
	rnrsA, rnrsB uint8 // of each end
}

// tries returns the limits of the requests from A, or from B. A message carries the retry counts that its receiver is
// to use; the end that asked for the connection has the same retry count as it asked for.
func (c *setup) tries(fromA bool) tries {
	rnrs := c.rnrsB
	if fromA {
		rnrs = c.rnrsA
	}
	return tries{known: c.hasA && c.hasB, retries: c.retries, rnrs: rnrs}
}

// setups are the connections of a capture, by the managers' ids.
type setups struct {
	by   map[commKey]*setup
	list []*setup
}

// commKey is a communication ID, which is a manager's own.
type commKey struct {
	fabric capture.Fabric
	host   capture.Host
	id     mad.CommID
}

const maxSetups = 1 << 16

func newSetups() *setups { return &setups{by: make(map[commKey]*setup)} }

// datagram returns the management datagram in a packet, if it is one.
func datagram(p *capture.Packet) (h mad.Header, data []byte, ok bool) {
	if p.Fabric == capture.IWARP || p.Broken != "" || p.IB.DestQP > ib.QP1 ||
		p.IB.Opcode.Info().Headers&ib.HasDETH == 0 {
		return h, nil, false
	}
	b := p.IB.Payload
	if p.Missing > 0 || len(b) < mad.Size {
		return h, nil, false
	}
	ok = h.Decode(b)
	return h, b[mad.HeaderLen:mad.Size], ok
}

// message returns the kind of a message that sets up or ends a connection, and both communication IDs.
func message(p *capture.Packet) (a mad.Attribute, data []byte, local, remote commKey, ok bool) {
	h, data, ok := datagram(p)
	if !ok || h.Class != mad.ClassCM {
		return 0, nil, local, remote, false
	}
	switch h.Attribute {
	case mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrREJ, mad.AttrMRA, mad.AttrDREQ, mad.AttrDREP, mad.AttrLAP,
		mad.AttrAPR:
	default:
		return 0, nil, local, remote, false
	}
	local = commKey{p.Fabric, p.From, mad.CommID(binary.BigEndian.Uint32(data))}
	remote = commKey{p.Fabric, p.To, mad.CommID(binary.BigEndian.Uint32(data[4:]))}
	return h.Attribute, data, local, remote, true
}

// of returns the connection that a packet is about, or nil.
func (s *setups) of(p *capture.Packet) *setup {
	a, _, local, remote, ok := message(p)
	if !ok {
		return nil
	}
	return s.find(a, local, remote)
}

func (s *setups) find(a mad.Attribute, local, remote commKey) *setup {
	if c := s.by[local]; c != nil && a != mad.AttrREP {
		return c
	}
	if a == mad.AttrREQ { // which names no other
		return nil
	}
	return s.by[remote]
}

// learn takes a message's facts about its connection.
func (s *setups) learn(p *capture.Packet) {
	a, data, local, remote, ok := message(p)
	if !ok {
		return
	}
	c := s.find(a, local, remote)
	if c == nil && (a == mad.AttrREQ || a == mad.AttrREP) && len(s.list) < maxSetups {
		c = &setup{fabric: p.Fabric, a: p.From, b: p.To}
		s.list = append(s.list, c)
		if a == mad.AttrREP { // of a request that is not in the capture
			c.a, c.b = p.To, p.From
			s.by[remote] = c
		}
	}
	if c == nil {
		return
	}
	switch a {
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(data)
		c.qpA, c.hasA, c.idA = m.LocalQPN, true, m.LocalCommID
		if 1 <= m.PathMTU && m.PathMTU <= 5 {
			c.mtu = 128 << m.PathMTU
		}
		c.retries, c.rnrsB = m.RetryCount, m.RNRRetryCount
		c.nvme = nvmeConnection(m.Private[mad.IPAddressLen:])
		s.by[local] = c
	case mad.AttrREP:
		var m mad.REP
		m.Decode(data)
		c.qpB, c.hasB, c.rnrsA = m.LocalQPN, true, m.RNRRetryCount
		s.by[local] = c
	}
}
