// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Lossy makes the managers that start from now on lose and repeat the datagrams that they
// send, with the probabilities given, until the function it returns is called.
func Lossy(lose, repeat float64, seed uint64) (stop func()) {
	plain := openGSI
	openGSI = func(dev *verbs.Device) (gsi, error) {
		g, err := plain(dev)
		if err != nil {
			return nil, err
		}
		return &lossyGSI{gsi: g, lose: lose, repeat: repeat, rand: rand.New(rand.NewPCG(seed, 1))}, nil
	}
	return func() { openGSI = plain }
}

type lossyGSI struct {
	gsi
	lose, repeat float64
	mu           sync.Mutex
	rand         *rand.Rand
}

func (g *lossyGSI) Send(to verbs.AHAttr, mad []byte) error {
	g.mu.Lock()
	lose, repeat := g.rand.Float64() < g.lose, g.rand.Float64() < g.repeat
	g.mu.Unlock()
	if lose {
		return nil
	}
	if repeat {
		g.gsi.Send(to, mad)
	}
	return g.gsi.Send(to, mad)
}

func (g *lossyGSI) Recv(ctx context.Context, mad []byte) (int, verbs.AHAttr, error) {
	return g.gsi.Recv(ctx, mad)
}

// PortsFrom makes ids that are bound to any port get p, and those after it in turn, until the
// function it returns is called.
func PortsFrom(p uint16) (stop func()) {
	random := anyPort
	anyPort = func(int) int {
		p++
		return int(p) - 1 - firstEphemeral
	}
	return func() { anyPort = random }
}

// Managers returns how many devices have a manager.
func Managers() int {
	managers.Lock()
	defer managers.Unlock()
	return len(managers.of)
}

// Idle says whether the managers have nothing left to do, and hold nothing for connections.
func Idle() bool {
	managers.Lock()
	defer managers.Unlock()
	for _, m := range managers.of {
		m.mu.Lock()
		busy := !m.stopped && (len(m.ids) > 0 || !m.proto.idle() || m.shared.pd != nil)
		m.mu.Unlock()
		if busy {
			return false
		}
	}
	return true
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

// QueuedEvents returns how many events of a listener nobody has fetched.
func (l *Listener) QueuedEvents() int {
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	return len(l.events.queue)
}
