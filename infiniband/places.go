// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
)

// places are the ports of the fabric's switches that adapters of other processes have joined, by the adapters' names. A
// place outlives its adapter, which gets the same port when it comes back, until another one needs the port. So there
// are at most as many places as ports.
type places map[string]*place

// place is the port of an adapter.
type place struct {
	end    End
	host   netip.Addr // where the adapter is, or was
	cable  *Cable     // nil: the adapter has left
	left   time.Time  // when
	pulled bool       // its cable was pulled here, and has to be plugged in again
}

// maxAdapterName limits an adapter's name with the number of its port: a NodeDescription, and "[1]".
const maxAdapterName = 64 + len("[1]")

// adapterName returns the name in an adapter's description of its port, such as pod-0[1].
func adapterName(own string) (string, error) {
	name, ok := strings.CutSuffix(own, "[1]")
	if !ok || name == "" || len(own) > maxAdapterName || printable(own) != own {
		return "", errors.New("only a port 1 of an adapter with a printable name joins without naming a port here")
	}
	return name, nil
}

// find returns the place of an adapter: its former one, or a port of free, the ports without a cable. It also returns
// a cable that is to be closed before, of a process of the same host whose end has not been noticed yet.
func (p places) find(name string, host netip.Addr, free []End) (at *place, before *Cable, err error) {
	at = p[name]
	switch {
	case at == nil:
	case at.pulled:
		return nil, nil, fmt.Errorf("the cable of %s was pulled at %v: relink plugs it in again", name, at.end)
	case at.cable != nil && at.host != host:
		return nil, nil, fmt.Errorf("an adapter called %s is joined already, from %v: give this one another name", name,
			at.host)
	case at.cable != nil:
		return at, at.cable, nil
	}
	end, ok := p.choose(name, free)
	if !ok {
		return nil, nil,
			errors.New("no switch has a port without a cable: run the fabric with more ports, such as by --spare 32")
	}
	for other, q := range p {
		if q.end == end {
			delete(p, other)
		}
	}
	at = &place{end: end, host: host}
	p[name] = at
	return at, nil, nil
}

// choose returns the port that an adapter had, or else a port that no adapter has had, or else the port that was left
// first.
func (p places) choose(name string, free []End) (best End, ok bool) {
	had := make(map[End]*place, len(p))
	for _, q := range p {
		had[q.end] = q
	}
	var first time.Time
	for _, e := range free {
		switch q := had[e]; {
		case q != nil && q == p[name]:
			return e, true
		case q != nil && (q.pulled || q.cable != nil):
		case q == nil:
			if !ok || !first.IsZero() {
				best, first, ok = e, time.Time{}, true
			}
		case !ok || !first.IsZero() && q.left.Before(first):
			best, first, ok = e, q.left, true
		}
	}
	return best, ok
}

// leave records that a cable has ended. pulled: it was pulled at this end.
func (p places) leave(c *Cable, pulled bool, now time.Time) {
	for _, q := range p {
		if q.cable == c {
			q.cable, q.left, q.pulled = nil, now, pulled
		}
	}
}

// relink lets the adapter at a port come back whose cable was pulled there. It returns false if there is none.
func (p places) relink(e End) bool {
	for _, q := range p {
		if q.end == e && q.pulled {
			q.pulled = false
			return true
		}
	}
	return false
}

// markPulled marks the ports in a view whose adapters' cables are pulled.
func (p places) markPulled(v *fabric.View) {
	pulled := make(map[End]string)
	for name, q := range p {
		if q.pulled {
			pulled[q.end] = name
		}
	}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Ports {
			port := &v.Nodes[i].Ports[j]
			if name, ok := pulled[End{Node: v.Nodes[i].Name, Port: port.Number}]; ok && port.Remote == "" {
				port.Remote, port.Pulled = End{Node: name, Port: 1}.String()+", pulled", true
			}
		}
	}
}

// of returns the port of an adapter, by the name that errors and views have: pod-0[1].
func (p places) of(e End) (End, bool) {
	if q := p[e.Node]; q != nil && e.Port == 1 {
		return q.end, true
	}
	return End{}, false
}

// guidOf returns the GUID of the adapter of a name, which has it wherever it runs. Generated topologies
// have another prefix. The last byte is for the number of the port.
func guidOf(name string) uint64 {
	const prefix = 0x02524b00_00000000
	h := fnv.New32a()
	h.Write([]byte(name))
	return prefix | uint64(h.Sum32())<<8
}

// numbered returns the name of the nth adapter of a host, from 1 on.
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	return name + "/" + strconv.Itoa(n)
}

// place finds a port for an adapter that joins without naming one; own describes its end, and host is its host.
func (f *Fabric) place(own string, host netip.Addr) (at End, name string, err error) {
	if name, err = adapterName(own); err != nil {
		return End{}, "", err
	}
	if f.running.Has(name) {
		return End{}, "", fmt.Errorf("the fabric has a node of its own called %q: give the adapter another name", name)
	}
	for {
		free := endsOf(f.running.FreePorts())
		f.placesMu.Lock()
		p, before, err := f.places.find(name, host, free)
		f.placesMu.Unlock()
		switch {
		case err != nil:
			return End{}, "", err
		case before == nil:
			return p.end, name, nil
		}
		before.end(errReplaced, false)
	}
}

// errReplaced ends the cable of an adapter whose program has started again.
var errReplaced = errors.New("infiniband: the adapter has joined again")

// occupy records the cable of an adapter; an empty name is that of none.
func (f *Fabric) occupy(name string, c *Cable) {
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	if p := f.places[name]; p != nil && p.end == c.local {
		p.cable, p.host = c, c.peer.Addr()
	}
}

// leave records that a cable has ended.
func (f *Fabric) leave(c *Cable, pulled bool) {
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	f.places.leave(c, pulled, time.Now())
}
