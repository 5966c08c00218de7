// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// String returns the topology as text: see [Topology.Append].
func (t *Topology) String() string { return string(t.Append(nil)) }

// Append appends the topology as text that [Parse] reads back, and ibsim too. An adapter's port
// without a cable stands there only if its GUID is not the default one, or if it has a LID; ibsim
// does not take such a line.
func (t *Topology) Append(b []byte) []byte {
	links := make(map[End]int, 2*len(t.Links))
	for i, l := range t.Links {
		links[l.A], links[l.B] = i, i
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if i > 0 {
			b = append(b, '\n')
		}
		b = n.append(b)
		for num := 1; num < len(n.Ports); num++ {
			end := End{i, num}
			if l, ok := links[end]; ok {
				b = t.appendPort(b, end, &t.Links[l])
			} else if p := &n.Ports[num]; n.hasGUID(num) && (p.GUID != n.GUID+uint64(num) || p.LID != 0) {
				b = fmt.Appendf(b, "[%d](%x)\t\t# lid %d lmc %d\n", num, p.GUID, p.LID, p.LMC)
			}
		}
	}
	for i, c := range t.Commands {
		if i == 0 {
			b = append(b, '\n')
		}
		b = append(b, "do "+c.Text+"\n"...)
	}
	return b
}

// append appends the first lines of a record.
func (n *Node) append(b []byte) []byte {
	if n.VendorID != 0 {
		b = fmt.Appendf(b, "vendid=%#x\n", n.VendorID)
	}
	if n.DeviceID != 0 {
		b = fmt.Appendf(b, "devid=%#x\n", n.DeviceID)
	}
	b = fmt.Appendf(b, "sysimgguid=%#x\n", n.SystemGUID)
	word := "Ca"
	switch n.Type {
	case node.Switch:
		word = "Switch"
		b = fmt.Appendf(b, "switchguid=%#x(%x)\n", n.GUID, n.Ports[0].GUID)
	case node.Router:
		word = "Rt"
		b = fmt.Appendf(b, "rtguid=%#x\n", n.GUID)
	default:
		b = fmt.Appendf(b, "caguid=%#x\n", n.GUID)
	}
	b = fmt.Appendf(b, "%s\t%d \"%s\"\t\t# \"%s\"", word, n.NumPorts(), n.Name, n.describe())
	if n.Type == node.Switch {
		b = fmt.Appendf(b, " base port 0 lid %d lmc %d", n.Ports[0].LID, n.Ports[0].LMC)
	}
	return append(b, '\n')
}

// appendPort appends the line of a port with a cable.
func (t *Topology) appendPort(b []byte, end End, l *Link) []byte {
	other := l.B
	if end == l.B {
		other = l.A
	}
	n, m := &t.Nodes[end.Node], &t.Nodes[other.Node]
	b = fmt.Appendf(b, "[%d]", end.Port)
	if n.hasGUID(end.Port) {
		b = fmt.Appendf(b, "(%x)", n.Ports[end.Port].GUID)
	}
	b = fmt.Appendf(b, "\t\"%s\"[%d]", m.Name, other.Port)
	address := &m.Ports[0]
	if m.hasGUID(other.Port) {
		address = &m.Ports[other.Port]
		b = fmt.Appendf(b, "(%x)", address.GUID)
	}
	if l.Width != 0 && l.Speed == 0 {
		b = fmt.Appendf(b, " w=%d", l.Width)
	}
	if l.Speed != 0 && l.Width == 0 {
		b = appendSpeed(b, l.Speed)
	}
	b = append(b, "\t\t#"...)
	if n.hasGUID(end.Port) {
		b = fmt.Appendf(b, " lid %d lmc %d", n.Ports[end.Port].LID, n.Ports[end.Port].LMC)
	}
	b = fmt.Appendf(b, " \"%s\" lid %d", m.describe(), address.LID)
	if l.Width != 0 && l.Speed != 0 {
		b = fmt.Appendf(b, " %dx%v", l.Width.Lanes(), l.Speed)
	}
	return append(b, '\n')
}

// appendSpeed appends the options for a speed alone.
func appendSpeed(b []byte, s node.Speed) []byte {
	if s <= node.QDR {
		return fmt.Appendf(b, " s=%d", s)
	}
	return fmt.Appendf(b, " s=7 e=%d", s>>4)
}
