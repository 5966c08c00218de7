// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// End names a port of a node.
type End struct {
	Node string
	Port int
}

func (e End) String() string { return fmt.Sprintf("%s[%d]", e.Node, e.Port) }

// withPort calls do with an external port, with the lock held.
func (f *Fabric) withPort(e End, do func(m *member, p *link.Port) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	m, p, err := f.port(e)
	if err == nil {
		err = do(m, p)
	}
	f.step()
	return err
}

// port returns an external port.
func (f *Fabric) port(e End) (*member, *link.Port, error) {
	m, err := f.member(e.Node)
	if err != nil {
		return nil, nil, err
	}
	if e.Port < 1 || e.Port >= len(m.state.Ports) {
		return nil, nil, fmt.Errorf("node %q has ports 1 to %d, not %d", m.name, len(m.state.Ports)-1, e.Port)
	}
	return m, m.node.Port(e.Port), nil
}

// Has reports whether a node is called so.
func (f *Fabric) Has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byName[name] != nil
}

func (f *Fabric) member(name string) (*member, error) {
	if m := f.byName[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("the fabric has no node %q", name)
}

// Plug connects two ports with a cable.
func (f *Fabric) Plug(a, b End) error {
	return f.withPort(a, func(_ *member, p *link.Port) error {
		_, q, err := f.port(b)
		if err == nil {
			err = f.checkUnplugged(a, p)
		}
		if err == nil {
			err = f.checkUnplugged(b, q)
		}
		if err == nil {
			_, err = f.net.Plug(f.now(), p, q, 0)
		}
		return err
	})
}

// Pull takes the cable at a port out.
func (f *Fabric) Pull(e End) error {
	return f.withPort(e, func(_ *member, p *link.Port) error {
		if r := f.remotes[p]; r != nil {
			f.unplug(r)
			return nil
		}
		if p.Cable() == nil {
			return fmt.Errorf("%v has no cable", e)
		}
		f.net.Pull(f.now(), p.Cable())
		return nil
	})
}

// Power switches a switch off, or on again.
func (f *Fabric) Power(name string, on bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	m, err := f.member(name)
	switch {
	case err != nil:
		return err
	case m.state.Type != node.Switch:
		return fmt.Errorf("%q is a %v: only switches can be switched off", m.name, m.state.Type)
	}
	if on && m.off { // its LIDs are lost
		at := &m.state.Ports[0].Address
		at.LID, at.LMC, at.SMLID, at.SMSL = 0, 0, 0, 0
		m.agent.Restart()
	}
	m.off = !on
	f.net.Power(f.now(), m.node, on)
	for _, r := range f.remotes {
		if r.m == m && !on {
			f.net.RemoteDown(f.now(), r.port)
		}
	}
	if on && f.manager != nil && f.manager.at == m {
		f.manager.resume(f.now())
	}
	f.step()
	return nil
}

// longPacket is the length in bits of the packets to which an error rate applies: 4 KiB of payload.
const longPacket = 4096 * 8

// SetErrorRate makes the cable at a port corrupt a share of long packets, from 0 to 1. Each bit has the same
// chance, so shorter packets are corrupted less often.
func (f *Fabric) SetErrorRate(e End, share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("error rate %g: it is a share of the packets, from 0 to 1", share)
	}
	return f.withPort(e, func(m *member, p *link.Port) error {
		if p.Cable() == nil {
			return fmt.Errorf("%v has no cable", e)
		}
		perBit := min(-math.Log1p(-share)/longPacket, 0.01)
		if err := f.net.SetErrorRate(f.now(), p.Cable(), perBit); err != nil {
			return err
		}
		f.errors[p.Cable()] = share
		return nil
	})
}

// SetPacketErrorRate makes the cable at a port corrupt a share of all packets, from 0 to 1.
func (f *Fabric) SetPacketErrorRate(e End, share float64) error {
	return f.withCable(e, func(p *link.Port) error { return f.net.SetPacketErrorRate(f.now(), p.Cable(), share) })
}

// CorruptNext makes the cable at a port corrupt the nth packet that the port sends from now on.
func (f *Fabric) CorruptNext(e End, nth int) error {
	return f.withCable(e, func(p *link.Port) error { return f.net.CorruptNext(f.now(), p, nth) })
}

// SetDelay changes how long the cable at a port takes from end to end.
func (f *Fabric) SetDelay(e End, d time.Duration) error {
	return f.withCable(e, func(p *link.Port) error { return f.net.SetDelay(f.now(), p.Cable(), clock.Time(d)) })
}

// SetReorder has a share of the packets on the cable at a port, from 0 to 1, held back for up to most.
func (f *Fabric) SetReorder(e End, share float64, most time.Duration) error {
	return f.withCable(e,
		func(p *link.Port) error { return f.net.SetReorder(f.now(), p.Cable(), share, clock.Time(most)) })
}

// withCable calls do for a port that has a cable, as withPort does.
func (f *Fabric) withCable(e End, do func(*link.Port) error) error {
	return f.withPort(e, func(_ *member, p *link.Port) error {
		if p.Cable() == nil {
			return fmt.Errorf("%v has no cable", e)
		}
		return do(p)
	})
}

// Hold makes a port withhold the credits of a lane, or grant them again.
func (f *Fabric) Hold(e End, vl int, on bool) error {
	return f.withPort(e, func(_ *member, p *link.Port) error { return f.net.HoldCredits(f.now(), p, vl, on) })
}

// ClearCounters sets counters to 0: of a port, of all ports of a node if the port is 0, and of all nodes
// if the name is empty.
func (f *Fabric) ClearCounters(e End) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear := func(m *member) {
		for i := range m.state.Ports {
			if e.Port == 0 || e.Port == i {
				m.state.Ports[i].Counters = node.Counters{}
			}
		}
	}
	if e.Node == "" {
		for _, m := range f.members {
			clear(m)
		}
		return nil
	}
	m, err := f.member(e.Node)
	if err == nil && e.Port != 0 {
		_, _, err = f.port(e)
	}
	if err == nil {
		clear(m)
	}
	return err
}

// SetGUID changes the GUID of a node (port 0), or of an adapter's port. The manager finds it in its next sweep.
func (f *Fabric) SetGUID(e End, guid uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.member(e.Node)
	if err != nil {
		return err
	}
	for _, o := range f.members {
		if o != m && o.state.GUID == guid {
			return fmt.Errorf("node %q has the GUID %#016x already", o.name, guid)
		}
	}
	switch {
	case e.Port == 0:
		m.state.GUID = guid
		if m.state.Type == node.Switch {
			m.state.Ports[0].GUID, m.state.Ports[0].GUIDs[0] = guid, guid
		}
	case m.state.Type != node.CA:
		return fmt.Errorf("ports of %q have no GUID: it is a %v", m.name, m.state.Type)
	default:
		if _, _, err := f.port(e); err != nil {
			return err
		}
		p := &m.state.Ports[e.Port]
		p.GUID, p.GUIDs[0] = guid, guid
	}
	f.wake()
	return nil
}
