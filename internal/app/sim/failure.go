// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

// FailureKind is the kind of a failing part.
type FailureKind uint8

const (
	LinkFails   FailureKind = iota // all links between two nodes
	SwitchFails                    // all links of a switch
	PauseStorm                     // a host that tells its switch to pause, and goes on
)

// Failure is a failure that lasts for a time. Nodes are numbered as in a [Topology].
type Failure struct {
	Kind FailureKind
	A, B int // a link's ends; else the node is A
	At   Time
	For  Time // how long; 0: to the end
}

// outage is the beginning or the end of a failure.
type outage struct {
	ports []*port
	storm bool
	ends  bool
}

func (o *outage) happen(s *Sim) {
	for _, p := range o.ports {
		switch {
		case o.storm:
			p.storming = !o.ends
			p.tell(s, !o.ends)
		case o.ends:
			p.recover(s)
		default:
			p.fail(s)
		}
	}
	if !o.storm {
		s.at(s.now+s.config.Switch.Reroute, rerouter{})
	}
}

// rerouter is that switches choose paths without the links that are down.
type rerouter struct{}

func (rerouter) happen(s *Sim) { s.findRoutes() }

// plan schedules the failures.
func (s *Sim) plan(t *Topology) error {
	for i := range s.config.Failures {
		f := &s.config.Failures[i]
		ports, err := s.failing(t, f)
		if err != nil {
			return &Error{OfFailure, i, err}
		}
		if f.At < 0 || f.For < 0 {
			return &Error{OfFailure, i, fmt.Errorf("it is at %v for %v: neither may be negative", f.At.Duration(),
				f.For.Duration())}
		}
		s.at(f.At, &outage{ports: ports, storm: f.Kind == PauseStorm})
		if f.For > 0 {
			s.at(f.At+f.For, &outage{ports: ports, storm: f.Kind == PauseStorm, ends: true})
		}
	}
	return nil
}

// failing returns the ports that a failure concerns: of links both ends.
func (s *Sim) failing(t *Topology, f *Failure) (ports []*port, err error) {
	for _, n := range [2]int{f.A, f.B} {
		if n < 0 || n >= t.Hosts+t.Switches {
			return nil, fmt.Errorf("there is no node %d: there are %d hosts and %d switches, each from 0", n, t.Hosts,
				t.Switches)
		}
	}
	switch f.Kind {
	case PauseStorm:
		if s.config.Switch.InfiniBand {
			return nil, fmt.Errorf("a pause storm is of Ethernet: InfiniBand has no pauses")
		}
		if f.A >= t.Hosts {
			return nil, fmt.Errorf("a pause storm comes from a host, and %s is none", t.name(f.A))
		}
		return []*port{s.hosts[f.A].port}, nil
	case SwitchFails:
		if f.A < t.Hosts {
			return nil, fmt.Errorf("%s is no switch", t.name(f.A))
		}
		for _, p := range s.switches[f.A-t.Hosts].ports {
			ports = append(ports, p, p.peer)
		}
		return ports, nil
	}
	for _, p := range s.portsOf(t, f.A) {
		if p.peer.node() == t.name(f.B) {
			ports = append(ports, p, p.peer)
		}
	}
	if ports == nil {
		return nil, fmt.Errorf("there is no link between %s and %s", t.name(f.A), t.name(f.B))
	}
	return ports, nil
}

// name returns the name of a node, for people.
func (t *Topology) name(n int) string {
	if n < t.Hosts {
		return fmt.Sprint("host ", n)
	}
	return fmt.Sprint("switch ", n-t.Hosts)
}

func (s *Sim) portsOf(t *Topology, n int) []*port {
	if n < t.Hosts {
		return []*port{s.hosts[n].port}
	}
	return s.switches[n-t.Hosts].ports
}

// down reports whether the link has failed.
func (p *port) down() bool { return p.failures > 0 }

// fail is that a failure takes the link. Its queue is lost, and a pause ends.
func (p *port) fail(s *Sim) {
	if p.failures++; p.failures > 1 {
		return
	}
	p.downAt = s.now
	if p.paused {
		p.Stats.Paused += s.now - p.changed
	}
	p.paused, p.stopped, p.storm = false, false, false
	for c := range numClasses {
		p.Stats.Lost += p.flush(s, c, Lost)
	}
}

// recover is that a failure of the link ends.
func (p *port) recover(s *Sim) {
	if p.failures--; p.down() {
		return
	}
	if p.storming {
		p.tell(s, true)
	}
	if p.lanes != nil {
		p.open(s.config.Switch.Credits)
	}
	p.send(s)
}

// flush drops the queued packets of a class, and returns their number.
func (p *port) flush(s *Sim, c class, why What) (n uint64) {
	w, _ := p.owner.(*fabricSwitch)
	p.queueChanges(s.now)
	for q := &p.queues[c]; q.head != nil; n++ {
		pk := q.pop()
		p.bytes[c] -= int(pk.size)
		if c == classLink && p.lanes != nil {
			p.lanes[pk.lane].telling = false
		}
		if w != nil && c != classLink {
			w.leaves(s, pk)
		}
		p.saw(s, why, pk)
		s.release(pk)
	}
	return n
}

// missed reports whether a packet that arrives by p was on the link when that failed.
func (p *port) missed(now Time, pk *packet) bool {
	return p.downAt >= 0 && (p.down() || now-p.delay-p.serialize(pk.size) <= p.downAt)
}
