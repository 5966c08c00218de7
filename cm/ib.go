// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibcm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// ibProtocol is the communication management of InfiniBand and RoCE (IBTA chapter 12) with the
// addresses of the RDMA IP CM service (annex A11). The engine of package ibcm runs it, as one of
// the management agents at the device's queue pair 1.
//
// A goroutine receives. The timer's function runs due work. The goroutine that releases the manager's
// lock sends.
type ibProtocol struct {
	m         *manager
	agent     driver.MADAgent
	engine    *ibcm.Engine
	start     time.Time
	timer     *time.Timer
	deadline  clock.Time // when the timer fires
	listeners map[mad.ServiceID]*ID
	conns     map[mad.CommID]*ibConn
	watches   map[verbs.GID]*watch
	device    verbs.DeviceAttr
	subnet    *subnet // nil: the fabric has no LIDs
}

func newIBProtocol(m *manager, a driver.MADAgent) *ibProtocol {
	p := &ibProtocol{m: m, agent: a, start: time.Now(), listeners: map[mad.ServiceID]*ID{},
		conns: map[mad.CommID]*ibConn{}, watches: map[verbs.GID]*watch{}}
	p.device = m.drv.QueryDevice()
	c := ibcm.Config{CAGUID: p.device.NodeGUID}
	rand.Read(c.Key[:])
	c.IDBase, c.IDMask = a.IDs()
	p.engine = ibcm.New(c)
	p.subnet = newSubnet(m.drv)
	p.timer = time.AfterFunc(time.Hour, p.timeout)
	p.timer.Stop()
	return p
}

// mtu returns the port's current path MTU.
func (p *ibProtocol) mtu() verbs.MTU {
	port, err := p.m.drv.QueryPort(1)
	if err != nil {
		return verbs.MTU1024
	}
	return port.ActiveMTU
}

// gid returns the GID at which connections of the device end.
func (c *ibConn) gid() verbs.GID {
	if c.subnet != nil {
		return c.subnet.gid()
	}
	return ib.GIDFromAddr(c.id.local.Addr())
}

// lid returns the port's LID, 0: there are none.
func (c *ibConn) lid() uint16 {
	if c.subnet != nil {
		return c.subnet.lid()
	}
	return 0
}

// gidOf returns the GID of a host; over IP it is its address.
func (p *ibProtocol) gidOf(a netip.Addr) verbs.GID {
	if p.subnet != nil {
		return p.subnet.gidOf(a)
	}
	return ib.GIDFromAddr(a)
}

func (p *ibProtocol) run() { go p.receive() }

func (p *ibProtocol) now() clock.Time { return clock.Time(time.Since(p.start)) + 1 }

// receive hands datagrams to the engine until the interface is closed.
func (p *ibProtocol) receive() {
	var b [mad.Size]byte
	for {
		n, from, err := p.agent.Recv(context.Background(), b[:])
		if err != nil {
			p.m.fail(err)
			return
		}
		p.m.mu.Lock()
		if !p.m.stopped {
			p.engine.HandleMADOf(p.now(), from.AH, from.PKey, b[:n])
		}
		p.m.unlock()
	}
}

func (p *ibProtocol) timeout() {
	p.m.mu.Lock()
	p.deadline = 0
	if !p.m.stopped {
		p.engine.HandleTimeout(p.now())
	}
	p.m.unlock()
}

// goodbye disconnects, rejects or withdraws everything, with one datagram each.
func (p *ibProtocol) goodbye() (say func()) {
	p.engine.Leave(p.now())
	var words []ibcm.Datagram
	var out ibcm.Datagram
	for p.engine.NextMAD(&out) {
		words = append(words, out)
	}
	return func() {
		until := time.Now().Add(goodbyeTime)
		for i := range words {
			for errors.Is(p.send(&words[i]), verbs.ErrQueueFull) && time.Now().Before(until) {
				time.Sleep(100 * time.Microsecond) // the device sends the queue's datagrams
			}
		}
	}
}

// goodbyeTime limits how long a closing device tries to tell all peers while its port is full. On a busy machine
// the thread that empties the port may have to wait for a processor.
const goodbyeTime = time.Second

// send sends a datagram, from queue pair 1 to queue pair 1.
func (p *ibProtocol) send(out *ibcm.Datagram) error {
	return p.agent.Send(umad.Path{AH: out.To, PKey: out.PKey}, out.MAD[:])
}

// flush sends the engine's datagrams, delivers its events, and sets the timer. A datagram that cannot be
// sent is lost, as any datagram may be: the engine repeats it.
func (p *ibProtocol) flush() {
	var out ibcm.Datagram
	var e ibcm.Event
	for more := true; more; {
		more = false
		for p.engine.NextMAD(&out) {
			p.send(&out)
		}
		for p.engine.NextEvent(&e) {
			p.handle(&e)
			more = true
		}
	}
	d := p.engine.Deadline()
	if d == p.deadline {
		return
	}
	if p.deadline = d; d == 0 {
		p.timer.Stop()
		return
	}
	p.timer.Reset(time.Duration(d - p.now()))
}

func (p *ibProtocol) connects(t verbs.QPType) bool { return t >= verbs.RC && t <= verbs.XRCTgt }

func (p *ibProtocol) idle() bool { return p.engine.Connections() == 0 }

func (p *ibProtocol) close() {
	p.timer.Stop()
	if p.subnet != nil {
		p.subnet.close()
	}
	for _, w := range p.watches {
		w.cancel()
	}
	p.agent.Close()
}
