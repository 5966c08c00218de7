// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// remoteAdapter is an adapter of a fabric in another process.
type remoteAdapter struct {
	welcome
	conn   *net.UnixConn
	driver fabric.Driver
	infos  []atomic.Pointer[info] // by port, from 1 on
	ready  atomic.Bool            // queue is not empty
	ended  chan struct{}          // closed with the connection

	outgoing outgoing

	mu    sync.Mutex
	pool  *link.Net // allocates packets
	queue queue.Ring[fabric.Arrival]
	bytes int           // in queue
	taken chan struct{} // of capacity 1: something was taken from queue

	callsMu sync.Mutex
	lastID  uint64
	calls   map[uint64]chan answer

	lossCount
}

// maxQueued is how many bytes of packets are queued for the device before the socket is read no more, and the fabric
// holds the senders back.
const maxQueued = 2 << 20

// attach attaches a driver to an adapter of another process's fabric.
func attach(ctx context.Context, name, adapter string, d fabric.Driver) (*remoteAdapter, error) {
	ctx, cancel := patience(ctx)
	defer cancel()
	c, err := dialLocal(ctx, name)
	if err != nil {
		return nil, err
	}
	return attachTo(ctx, c, adapter, d)
}

// attachTo attaches a driver to an adapter of the fabric whose process c leads to.
func attachTo(ctx context.Context, c *net.UnixConn, adapter string, d fabric.Driver) (*remoteAdapter, error) {
	a := &remoteAdapter{conn: c, driver: d, ended: make(chan struct{}), pool: link.New(link.Config{}),
		taken: make(chan struct{}, 1),
		calls: make(map[uint64]chan answer)}
	a.outgoing.init(c, d.Wake)
	r := newReader(c, maxMessage)
	if err := a.join(ctx, r, adapter); err != nil {
		c.Close()
		a.outgoing.close()
		return nil, err
	}
	go a.read(r)
	a.RefreshLosses()
	return a, nil
}

// refusedError returns the error in a refusal of the fabric's process.
func refusedError(b []byte) error {
	var why refusal
	if err := decode(b, &why); err != nil {
		return err
	}
	return fmt.Errorf("infiniband: %s", why.Error)
}

// join attaches to an adapter, by exchanging hello and welcome.
func (a *remoteAdapter) join(ctx context.Context, r *reader, adapter string) error {
	if err := exchangeHello(ctx, a.conn, r, hello{Adapter: adapter}, kindWelcome, &a.welcome); err != nil {
		return err
	}
	if !a.welcome.valid() {
		return errMessage
	}
	a.infos = make([]atomic.Pointer[info], len(a.welcome.Ports)+1)
	for i, p := range a.welcome.Ports {
		a.infos[i+1].Store(p)
	}
	return nil
}

// read handles the messages of the fabric's process, until the connection ends.
func (a *remoteAdapter) read(r *reader) {
	defer func() {
		a.conn.Close()
		a.outgoing.close()
		close(a.ended)
		a.driver.Wake()
	}()
	for {
		k, b, err := r.next()
		if err != nil {
			return
		}
		switch k {
		case kindPacket:
			err = a.handlePacket(b)
		case kindChanged:
			err = a.handleChanged(b)
		case kindAnswer:
			err = a.handleAnswer(b)
		default:
			err = errMessage
		}
		if err != nil {
			return
		}
	}
}

// handlePacket queues a packet. It waits while too much is queued.
func (a *remoteAdapter) handlePacket(b []byte) error {
	port, omitted, bytes, err := decodePacket(b)
	if err != nil || port < 1 || port >= len(a.infos) || len(bytes) < minArrival {
		return errMessage
	}
	a.mu.Lock()
	p := a.pool.Alloc(len(bytes))
	copy(p.Bytes(), bytes)
	p.NoICRC = omitted
	*a.queue.PushBack() = fabric.Arrival{Port: port, Packet: p}
	a.bytes += len(bytes)
	full, first := a.bytes > maxQueued, a.queue.Len() == 1
	a.ready.Store(true)
	a.mu.Unlock()
	if first {
		a.driver.Wake()
	}
	for full {
		select {
		case <-a.taken:
		case <-a.outgoing.done:
			return net.ErrClosed
		}
		a.mu.Lock()
		full = a.bytes > maxQueued
		a.mu.Unlock()
	}
	return nil
}

func (a *remoteAdapter) handleChanged(b []byte) error {
	var c changed
	if decode(b, &c) != nil || c.Port < 1 || c.Port >= len(a.infos) || invalidInfo(c.Info) {
		return errMessage
	}
	a.infos[c.Port].Store(c.Info)
	a.driver.Changed(c.Port, c.Events...)
	return nil
}

func (a *remoteAdapter) handleAnswer(b []byte) error {
	var n answer
	if err := decode(b, &n); err != nil {
		return err
	}
	a.callsMu.Lock()
	defer a.callsMu.Unlock()
	if to := a.calls[n.ID]; to != nil {
		delete(a.calls, n.ID)
		to <- n
	}
	return nil
}

// call sends a request to the fabric's process, and waits for its answer.
func (a *remoteAdapter) call(q request) (answer, error) {
	to := make(chan answer, 1)
	a.callsMu.Lock()
	a.lastID++
	q.ID = a.lastID
	a.calls[q.ID] = to
	a.callsMu.Unlock()
	defer func() {
		a.callsMu.Lock()
		delete(a.calls, q.ID)
		a.callsMu.Unlock()
	}()
	a.send(q)
	ctx, cancel := patience(context.Background())
	defer cancel()
	look := time.NewTicker(askInterval)
	defer look.Stop()
	for {
		select {
		case got := <-to:
			if got.Error != "" {
				return got, errors.New(got.Error)
			}
			return got, nil
		case <-a.ended:
			return answer{}, net.ErrClosed
		case <-look.C:
			if err := errStopped(a.conn); err != nil {
				return answer{}, err
			}
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
}

// send sends a request that needs no answer.
func (a *remoteAdapter) send(q request) { a.outgoing.write(appendMessage(nil, kindRequest, q)) }

func (a *remoteAdapter) Name() string        { return a.welcome.Name }
func (a *remoteAdapter) GUID() uint64        { return a.welcome.GUID }
func (a *remoteAdapter) Slot() int           { return a.welcome.Slot }
func (a *remoteAdapter) Ports() int          { return len(a.infos) - 1 }
func (a *remoteAdapter) Info(port int) *info { return a.infos[port].Load() }
func (a *remoteAdapter) Addr() netip.Addr    { return a.welcome.Addr }
func (a *remoteAdapter) Full() bool          { return a.outgoing.full() }
func (a *remoteAdapter) Ready() bool         { return a.ready.Load() }

// Neighbor returns the GID of an IP address.
func (a *remoteAdapter) Neighbor(ip netip.Addr) (ib.GID, bool) {
	g, ok := a.welcome.Neighbors[ip]
	return g, ok
}

func (a *remoteAdapter) Unclaim(id, mask uint64) {
	a.send(request{Op: opUnclaim, Service: id, Mask: mask})
}
func (a *remoteAdapter) Serve(class uint8, yes bool) {
	a.send(request{Op: opServe, Class: class, On: yes})
}
func (a *remoteAdapter) Claim(id, mask uint64) error {
	_, err := a.call(request{Op: opClaim, Service: id, Mask: mask})
	return err
}

// Alloc implements adapter.
func (a *remoteAdapter) Alloc(packets []*link.Packet, sizes []int) error {
	if a.Full() {
		return fabric.ErrAgain
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, size := range sizes {
		packets[i] = a.pool.Alloc(size)
	}
	return nil
}

// Discard implements adapter.
func (a *remoteAdapter) Discard(packets []*link.Packet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range packets {
		a.pool.Release(p)
	}
}

// Send implements adapter.
func (a *remoteAdapter) Send(port int, packets []*link.Packet) error {
	if err := a.outgoing.packets(port, packets); err != nil {
		return err
	}
	a.Discard(packets)
	return nil
}

// Receive implements adapter.
func (a *remoteAdapter) Receive(buf []fabric.Arrival) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for ; n < len(buf) && a.queue.Len() > 0; n++ {
		buf[n] = *a.queue.Front()
		a.queue.PopFront()
		a.bytes -= len(buf[n].Packet.Bytes())
	}
	a.ready.Store(a.queue.Len() > 0)
	if n == 0 && a.outgoing.isClosed() {
		return 0, fabric.ErrClosed
	}
	select {
	case a.taken <- struct{}{}:
	default:
	}
	return n, nil
}

// Release implements adapter.
func (a *remoteAdapter) Release(got []fabric.Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range got {
		a.pool.Release(g.Packet)
	}
}

// Close closes the connection, once all messages are written or drainTime is over.
func (a *remoteAdapter) Close() {
	a.outgoing.drain()
	a.conn.Close()
	a.outgoing.close()
	<-a.ended
}
