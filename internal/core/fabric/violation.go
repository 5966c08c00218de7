// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Violated has the adapter's agent report to the subnet manager that a port received a packet with a wrong
// key; t is [mad.TrapPKey] or [mad.TrapQKey].
func (s *Attachment) Violated(port int, t mad.Trap, d mad.KeyDetails) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || port < 1 || port >= len(s.m.state.Ports) || t != mad.TrapPKey && t != mad.TrapQKey {
		return
	}
	s.m.agent.KeyViolated(f.now(), port, t, d)
	f.net.AgentDue(s.m.node)
	f.step()
}
