// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// attributes are the supported attributes (section 14.2.5, table of attributes). get writes the attribute into the
// packet's data; set applies all of it or nothing.
var attributes = [...]struct {
	id       mad.Attribute
	switches bool // only switches have it
	get, set func(a *Agent, q *request) mad.Status
}{
	{id: smp.AttrNodeDescription, get: (*Agent).getNodeDescription},
	{id: smp.AttrNodeInfo, get: (*Agent).getNodeInfo},
	{id: smp.AttrSwitchInfo, switches: true, get: (*Agent).getSwitchInfo, set: (*Agent).setSwitchInfo},
	{id: smp.AttrGUIDInfo, get: (*Agent).getGUIDInfo, set: (*Agent).setGUIDInfo},
	{id: smp.AttrPortInfo, get: (*Agent).getPortInfo, set: (*Agent).setPortInfo},
	{id: smp.AttrPKeyTable, get: (*Agent).getPKeys, set: (*Agent).setPKeys},
	{id: smp.AttrSLtoVL, get: (*Agent).getSLtoVL, set: (*Agent).setSLtoVL},
	{id: smp.AttrVLArbitration, get: (*Agent).getArbitration, set: (*Agent).setArbitration},
	{id: smp.AttrLinearTable, switches: true, get: (*Agent).getLinear, set: (*Agent).setLinear},
	{id: smp.AttrMulticastTable, switches: true, get: (*Agent).getMulticast, set: (*Agent).setMulticast},
}

// access carries out a Get or a Set, and returns the status of its response. The response to a Set is that of a Get
// after it (section 13.4.5).
func (a *Agent) access(q *request) mad.Status {
	for i := range attributes {
		t := &attributes[i]
		if t.id != q.p.Attribute || t.switches && a.node.Tables == nil {
			continue
		}
		if q.p.Method == mad.MethodSet {
			if t.set == nil {
				break
			}
			if s := t.set(a, q); s != mad.StatusOK {
				return s
			}
		}
		return t.get(a, q)
	}
	return mad.StatusUnsupportedAttribute
}

// fill clears the packet's data after b, which is at its start.
func fill(p *smp.SMP, b []byte) mad.Status {
	clear(p.Data[len(b):])
	return mad.StatusOK
}

func (a *Agent) getNodeDescription(q *request) mad.Status {
	m := smp.NewNodeDescription(a.node.Description)
	return fill(q.p, m.Append(q.p.Data[:0]))
}

func (a *Agent) getNodeInfo(q *request) mad.Status {
	n, self := a.node, a.addressPort(q.at)
	m := smp.NodeInfo{BaseVersion: mad.BaseVersion, ClassVersion: smp.ClassVersion, NodeType: uint8(n.Type),
		NumPorts: uint8(len(n.Ports) - 1), SystemGUID: n.SystemGUID, NodeGUID: n.GUID, PortGUID: self.GUID,
		PartitionCap: uint16(len(self.Partition.PKeys)), DeviceID: n.DeviceID, Revision: n.Revision,
		LocalPort: uint8(q.at), VendorID: n.VendorID}
	return fill(q.p, m.Append(q.p.Data[:0]))
}

// external reports whether a port is an external port of a switch, which has no address.
func (a *Agent) external(num int) bool { return a.node.Tables != nil && num > 0 }

// numbered returns the port that a modifier names. At an adapter it is the receiving port for every modifier.
func (a *Agent) numbered(q *request, num uint32) (int, *node.Port) {
	if a.node.Tables == nil {
		return q.at, &a.node.Ports[q.at]
	}
	if num >= uint32(len(a.node.Ports)) {
		return 0, nil
	}
	return int(num), &a.node.Ports[num]
}
