// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	iblink "github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// arrives lets a packet that has crossed the fabric feel the path between its hosts, if one was chosen. Hosts
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
		n.lose(from, to, p, "cut off")
		return 0, true
	}
	all := w.passages(left, size)
	if len(all) == 0 {
		n.lose(from, to, p, "lost")
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

// befell writes the fault of a packet of a fabric.
func (n *Net) befell(from, to *Host, p *iblink.Packet, what string) {
	if n.log != nil {
		n.log.Text = fmt.Appendf(n.log.Text, "%d %s %v > %v %d\n", n.now(), what, from.addr, to.addr, len(p.Bytes()))
	}
}

// lose notes that a packet that its adapter has sent is lost. Of a multicast packet others have copies.
func (n *Net) lose(from, to *Host, p *iblink.Packet, why string) {
	n.befell(from, to, p, why)
	b := p.Bytes()
	if n.log == nil || binary.BigEndian.Uint16(b[2:]) >= node.FirstMulticastLID {
		return
	}
	// the virtual lane, in the first byte, is that of a link, and a CRC may not be there yet
	b = b[1 : len(b)-ib.ICRCLen]
	for i := len(n.log.packets) - 1; i >= 0; i-- {
		k := &n.log.packets[i]
		if k.infiniBand && !k.lost && bytes.HasPrefix(k.frame[1:], b) {
			k.lost = true
			return
		}
	}
}
