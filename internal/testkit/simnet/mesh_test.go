// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
)

// mesh is a program on several hosts, each of which has connections with all others at once.
type mesh struct {
	w        *world
	each     int // connections of two hosts
	messages int
	seed     uint64
	opts     []cm.Option

	mu   sync.Mutex
	errs []error
}

// runMesh connects all hosts with each other and has messages go over all connections at once. Faults
// of some hosts, for a time or for good, do the connections of the others no harm.
func runMesh(w *world) error {
	m := &mesh{w: w, each: 1 + w.rand.IntN(2), messages: 1 + w.rand.IntN(6), seed: w.rand.Uint64()}
	spin := time.Duration(w.rand.IntN(2) - 1)
	w.tell(", %d connections of any two, %d messages each way", m.each, m.messages)
	m.opts = []cm.Option{cm.WithRecvSize(cmMessage), cm.WithDepth(8, 16), cm.WithSpin(spin),
		cm.WithTimeout(time.Minute)}
	listen, stop := context.WithCancel(context.Background())
	defer stop()
	var listeners, accepted, dialed sync.WaitGroup
	for i := range w.hosts {
		l, err := cm.Listen(listen, w.devs[i], ":7", m.opts...)
		if err != nil {
			return err
		}
		defer l.Close()
		listeners.Go(func() { m.accept(listen, i, l, &accepted) })
	}
	for i := range w.hosts {
		for j := range i {
			for k := range m.each {
				dialed.Go(func() { m.fail(i, j, m.dial(i, j, k)) })
			}
		}
	}
	dialed.Wait()
	stop()
	listeners.Wait()
	accepted.Wait()
	return errors.Join(m.errs...)
}

// fail notes an error of a connection between two hosts, unless a fault excuses it.
func (m *mesh) fail(i, j int, err error) {
	if err = excuse(m.w.mayFail(i, j), err); err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, fmt.Errorf("hosts %d and %d: %w", i, j, err))
}

// side returns one of the sides of the k-th connection that host i makes to host j.
func (m *mesh) side(i, j, k, num int) *cmSide {
	pair := (i*8+j)*4 + k
	host := i
	if num == 0 {
		host = j
	}
	return &cmSide{w: m.w, host: host, num: num, pair: pair, messages: m.messages,
		rand: rand.New(rand.NewPCG(m.seed, uint64(2*pair+num)))}
}

// accept takes connections until listen ends.
func (m *mesh) accept(listen context.Context, host int, l *cm.Listener, accepted *sync.WaitGroup) {
	for {
		r, err := l.Next(listen)
		if err != nil {
			if listen.Err() == nil {
				m.fail(host, host, fmt.Errorf("listening: %w", err))
			}
			return
		}
		var from, k int
		if _, err := fmt.Sscanf(string(r.Param().PrivateData), "from %d, %d.", &from, &k); err != nil || from <= host ||
			from >= len(m.w.hosts) {
			m.fail(host, host, wrongf("a request with the private data %q", r.Param().PrivateData))
			return
		}
		accepted.Go(func() {
			c := m.side(from, host, k, 0)
			ctx, cancel := patient(c.who(0))
			defer cancel()
			conn, err := r.Accept(ctx)
			if err == nil {
				err = c.converseOn(ctx, conn)
			}
			m.fail(from, host, err)
		})
	}
}

func (m *mesh) dial(i, j, k int) error {
	c := m.side(i, j, k, 1)
	ctx, cancel := patient(c.who(1))
	defer cancel()
	m.w.net.Sleep(time.Duration(c.rand.IntN(1000))) // timers of several hosts must not run out at one instant
	to := m.w.hosts[j].Addr().String() + ":7"
	conn, err := cm.Dial(ctx, m.w.devs[i], to,
		append(m.opts[:len(m.opts):len(m.opts)], cm.WithPrivateData(fmt.Appendf(nil, "from %d, %d.", i, k)))...)
	if err != nil {
		return err
	}
	return c.converseOn(ctx, conn)
}
