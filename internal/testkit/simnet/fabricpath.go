// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	iblink "github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// arrives lets a packet that has crossed the fabric feel the path between its hosts, if somebody has chosen one. Hosts
// that share an adapter have the paths of the first of them. The fabric's lock is held.
func (n *Net) arrives(at *fabric.Attachment, port int, p *iblink.Packet) (copies int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	from, to := n.hostAt(at.Source(p)), n.hostAt(at.Addr())
	w := n.paths[[2]*Host{from, to}]
	if w == nil || from == to || !w.set || w.Path == (Path{}) {
		return 0, false
	}
	size := len(p.Bytes())
	left := w.leaves(n.now(), size)
	if w.Cut || w.Dead {
		n.befell(from, to, p, "nothing arrives")
		return 0, true
	}
	all := w.passages(left, size)
	if len(all) == 0 {
		n.befell(from, to, p, "lost")
	}
	for i, g := range all {
		switch {
		case g.flip >= 0:
			n.befell(from, to, p, "corrupted")
		case i > 0:
			n.befell(from, to, p, "duplicated")
		}
		c := at.Copy(p, g.flip >= 0)
		n.at(g.at, func() {
			n.mu.Unlock()
			at.Deliver(port, c)
			n.mu.Lock()
		})
	}
	return len(all), true
}

// befell writes what has befallen a packet of a fabric, and keeps the packet with a comment that says so.
func (n *Net) befell(from, to *Host, p *iblink.Packet, what string) {
	l := n.log
	if l == nil {
		return
	}
	l.Text = fmt.Appendf(l.Text, "%d %s %v > %v %d\n", n.now(), what, from.addr, to.addr, len(p.Bytes()))
	if l.Packets {
		frame := append([]byte(nil), p.Bytes()...)
		if end := len(frame) - ib.ICRCLen; p.NoICRC {
			crc, _ := ib.LocalICRC(frame[:end]) // it has the headers, or it would not be here
			binary.LittleEndian.PutUint32(frame[end:], crc)
		}
		l.packets = append(l.packets, packet{at: n.now(), infiniBand: true, frame: ib.AppendVCRC(frame), comment: what})
	}
}
