// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
)

// lossy has the functions that make agents lose datagrams, by the drivers of their devices.
var lossy sync.Map

func init() {
	plain := openMAD
	openMAD = func(o driver.MADDevice) (driver.MADAgent, error) {
		g, err := plain(o)
		if lossyOf, there := lossy.Load(o); there && err == nil {
			g = lossyOf.(func(driver.MADAgent) driver.MADAgent)(g)
		}
		return g, err
	}
}

// Lossy makes the manager of a device, which has not started, lose and repeat the datagrams that it
// sends, with the probabilities given.
func Lossy(t testing.TB, dev *verbs.Device, lose, repeat float64, seed uint64) {
	l := &lossyAgent{lose: lose, repeat: repeat, rand: rand.New(rand.NewPCG(seed, 1))}
	lossy.Store(driver.DeviceOf(dev), func(g driver.MADAgent) driver.MADAgent {
		l.MADAgent = g
		return l
	})
	t.Cleanup(func() {
		lossy.Delete(driver.DeviceOf(dev))
		if l.lost.Load() == 0 {
			t.Error("no datagram was lost")
		}
	})
}

type lossyAgent struct {
	driver.MADAgent
	lose, repeat float64
	lost         atomic.Int64
	mu           sync.Mutex
	rand         *rand.Rand
}

func (g *lossyAgent) Send(to umad.Path, mad []byte) error {
	g.mu.Lock()
	lose, repeat := g.rand.Float64() < g.lose, g.rand.Float64() < g.repeat
	g.mu.Unlock()
	if lose {
		g.lost.Add(1)
		return nil
	}
	if repeat {
		g.MADAgent.Send(to, mad)
	}
	return g.MADAgent.Send(to, mad)
}

// PortsFrom makes ids that are bound to any port get p and the following ports in turn, until the
// function that it returns is called.
func PortsFrom(p uint16) (stop func()) {
	random := anyPort
	anyPort = func(int) int {
		p++
		return int(p) - 1 - firstEphemeral
	}
	return func() { anyPort = random }
}

// Managed reports whether a device has a manager that runs.
func Managed(dev *verbs.Device) bool {
	at := managerSlotOf(dev)
	at.Lock()
	defer at.Unlock()
	if at.m == nil {
		return false
	}
	at.m.mu.Lock()
	defer at.m.mu.Unlock()
	return !at.m.stopped
}

// Idle reports whether the manager of a device has nothing left to do, and holds nothing for
// connections.
func Idle(dev *verbs.Device) bool {
	at := managerSlotOf(dev)
	at.Lock()
	defer at.Unlock()
	if at.m == nil {
		return true
	}
	m := at.m
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped || len(m.ids) == 0 && m.proto.idle() && m.shared.pd == nil
}

// SetRoom sets how many accepted connections may wait for their peers to confirm.
func (l *Listener) SetRoom(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room = n
}

// Waiting returns how many requests wait for room.
func (l *Listener) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// Requests returns how many ids ask at a listening id.
func (id *ID) Requests() (n int) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	for other := range id.m.ids {
		if other.state == requested && other.local.Port() == id.local.Port() {
			n++
		}
	}
	return n
}

// QueuedEvents returns how many events of a listener have not been fetched.
func (l *Listener) QueuedEvents() int { return l.events.Queued() }

// Queued returns how many events have not been fetched.
func (c *EventChannel) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// ServiceReply decodes the answer of a datagram service and encodes it again.
func ServiceReply(b []byte) (again, private []byte, ok bool) {
	var r serviceReply
	private, ok = r.decode(b)
	return r.append(nil), private, ok
}
