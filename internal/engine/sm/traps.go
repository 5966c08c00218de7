// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// portTraps are the texts of traps about a port's errors (section 14.2.5.1).
var portTraps = map[mad.Trap]string{
	mad.TrapLinkIntegrity: "local link integrity errors have reached their threshold",
	mad.TrapBufferOverrun: "excessive buffer overruns",
	mad.TrapFlowControl:   "no flow control has come for too long",
}

// keyTraps are the texts of traps about keys.
var keyTraps = map[mad.Trap]string{
	mad.TrapPKey:       "a packet with P_Key %#04x of another partition",
	mad.TrapQKey:       "a packet with the wrong Q_Key %#x",
	mad.TrapSwitchPKey: "a switch has refused a packet with P_Key %#04x",
}

// emitTrap emits an event for a notice about errors or keys. Changes of links are emitted by sweeps.
func (m *Manager) emitTrap(from uint16, n *mad.Notice) {
	if !n.Generic || m.fabric == nil {
		return
	}
	p := m.fabric.at(from)
	if p == nil {
		return
	}
	e := nodeEvent(TrapReceived, p.dev, p.num)
	if text, ok := portTraps[n.Trap]; ok {
		var d mad.PortDetails
		d.Decode(&n.Details)
		e.Port, e.Text = d.Port, text
	} else if text, ok := keyTraps[n.Trap]; ok {
		var d mad.KeyDetails
		d.Decode(n.Trap, &n.Details)
		if n.Trap == mad.TrapSwitchPKey {
			e.Port = d.Port
		}
		e.Text = fmt.Sprintf(text+", from QP %v of LID %d to QP %v of LID %d", d.Key, d.QP1, d.LID1, d.QP2, d.LID2)
	} else if n.Trap == mad.TrapMKey {
		var d mad.MKeyDetails
		d.Decode(&n.Details)
		e.Text = fmt.Sprintf("a request for attribute %#04x had the wrong M_Key", uint16(d.Attribute))
	} else {
		return
	}
	m.emit(e)
}
