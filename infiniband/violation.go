// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// violation is a received packet with a wrong key (section 14.2.5.1).
type violation struct {
	Port    int
	Trap    mad.Trap
	Details mad.KeyDetails
}

// violationInterval is the minimum time between reported violations. Packets come by the million; the agent traps
// only one in a while.
const violationInterval = 10 * time.Millisecond

// keyDrops counts the packets that a device has dropped because of their keys.
type keyDrops struct {
	pkey, qkey uint64
	reported   time.Time
}

func keyDropsOf(c *ibta.Counters) keyDrops {
	return keyDrops{pkey: c.Dropped[ibta.DropPKey], qkey: c.Dropped[ibta.DropQKey]}
}

// watchKeys reports the packet just delivered to the adapter's agent, if the device has dropped it because of a
// key.
func (p *port) watchKeys(c *ibta.Counters, a *fabric.Arrival) {
	now := keyDropsOf(c)
	if now.pkey == p.drops.pkey && now.qkey == p.drops.qkey {
		return
	}
	trap := mad.TrapPKey
	if now.qkey != p.drops.qkey {
		trap = mad.TrapQKey
	}
	p.drops.pkey, p.drops.qkey = now.pkey, now.qkey
	if at := time.Now(); at.Sub(p.drops.reported) >= violationInterval {
		p.drops.reported = at
		p.adapter.Violated(a.Port, trap, keyDetails(trap, a.Packet.Bytes(), &p.packet))
	}
}

// keyDetails returns the details of a packet for a notice.
func keyDetails(t mad.Trap, b []byte, packet *ib.Packet) mad.KeyDetails {
	var lrh ib.LRH
	lrh.Decode(b)
	d := mad.KeyDetails{LID1: lrh.SLID, LID2: lrh.DLID, SL: lrh.SL, Key: uint32(packet.PKey), QP2: packet.DestQP}
	if packet.Opcode.Transport() == ib.UDSendOnly.Transport() {
		d.QP1 = packet.DETH.SrcQP
	}
	if t == mad.TrapQKey {
		d.Key = uint32(packet.DETH.QKey)
	}
	if lrh.LNH == ib.LNHGlobal {
		var grh ib.GRH
		grh.Decode(b[ib.LRHLen:])
		d.GID1, d.GID2 = grh.SGID, grh.DGID
	}
	return d
}

// Violated implements adapter.
func (a *remoteAdapter) Violated(port int, t mad.Trap, d mad.KeyDetails) {
	a.send(request{Op: opViolated, Violation: &violation{port, t, d}})
}
