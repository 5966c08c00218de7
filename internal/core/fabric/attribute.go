// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// Attribute returns a subnet management attribute of the adapter, as its own agent answers a SubnGet at a port.
func (s *Attachment) Attribute(port int, a mad.Attribute, modifier uint32) ([smp.DataLen]byte, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if port < 1 || port >= len(s.m.state.Ports) {
		return [smp.DataLen]byte{}, fmt.Errorf("adapter %q has ports 1 to %d, not %d", s.m.name, len(s.m.state.Ports)-1,
			port)
	}
	p := smp.New(mad.MethodGet, a, modifier, 0)
	p.MKey = s.m.state.Ports[port].Authority.MKey
	b := p.Append(nil)
	v := s.m.agent.HandleSMP(f.now(), 0, sma.Route{Port: port}, b)
	p.Decode(b)
	if v != sma.Reply || p.Status() != mad.StatusOK {
		return p.Data, fmt.Errorf("%s of adapter %q: %v", smp.AttributeName(a), s.m.name, p.Status())
	}
	return p.Data, nil
}
