// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Conn is a connection. Several goroutines may use it at once: each call waits for its own
// completion. It owns its queue pair and completion queue, but no goroutine: one of the goroutines
// that wait polls for all of them.
type Conn struct {
	id        *ID
	qp        *verbs.QP
	pd        *verbs.PD
	peerParam ConnParam // of the peer's request or reply
	local     netip.AddrPort
	peer      netip.AddrPort

	ended  chan struct{} // closed when the connection has ended
	over   chan struct{} // closed when no more events follow
	finish sync.Once
	gone   sync.Once

	closing atomic.Bool
	closed  chan struct{} // closed when Close has ended
	queues  *queues       // nil with WithSetup
}

// errSetup is the error of calls that need the Conn's own queues if it has none.
func errSetup(op string) error {
	return opErr(op, verbs.ErrNotSupported, "the connection was made with WithSetup: use its QP")
}

// setUp creates the queues of the connection, or has an option do so, before it is requested or accepted.
func (c *Conn) setUp(o *options, p *ConnParam) error {
	c.ended, c.over, c.closed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	if o.setup != nil {
		if err := o.setup(c.id, p); err != nil {
			return err
		}
		c.qp, c.pd = c.id.QP(), o.pd
		return nil
	}
	q, err := newQueues(c, o)
	c.queues = q
	return err
}

// prepare creates the objects that accepting needs.
func (c *Conn) prepare(o *options) (*ConnParam, error) {
	if err := c.id.tune(o); err != nil {
		return nil, err
	}
	p := o.param
	return &p, c.setUp(o, &p)
}

// begin makes the connection receive its events.
func (c *Conn) begin(e *Event) error {
	if len(e.Conn.PrivateData) > 0 && len(c.peerParam.PrivateData) == 0 {
		c.peerParam.PrivateData = e.Conn.PrivateData
	}
	private := c.peerParam.PrivateData
	c.peerParam = e.Conn
	c.peerParam.PrivateData = private
	c.local, c.peer = c.id.LocalAddr(), c.id.PeerAddr()
	return c.id.migrate((*connEvents)(c))
}

// drop gives up a connection that the program never got.
func (c *Conn) drop() {
	c.id.Close()
	if c.queues != nil {
		c.queues.close()
	}
}

// connEvents is a Conn as the receiver of its id's events.
type connEvents Conn

func (c *connEvents) put(events ...*Event) bool {
	for _, e := range events {
		switch e.Type {
		case Disconnected, DeviceRemoval:
			c.finish.Do(func() { close(c.ended) })
			c.gone.Do(func() { close(c.over) })
		}
	}
	return true
}

func (c *connEvents) take(func(*Event) bool) []*Event { return nil }

// ID returns the connection's id.
func (c *Conn) ID() *ID { return c.id }

// QP returns the connection's queue pair.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD returns the protection domain of the queue pair, in which memory for Write and Read must be
// registered. It is nil with [WithSetup], unless [WithPD] named one.
func (c *Conn) PD() *verbs.PD { return c.pd }

// LocalAddr returns this side's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// PeerAddr returns the other side's address and port.
func (c *Conn) PeerAddr() netip.AddrPort { return c.peer }

// Param returns the peer's parameters: its private data, and the depths that were agreed on, seen
// from this side.
func (c *Conn) Param() ConnParam { return c.peerParam }

// Done is closed when the connection has ended, from either side.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// closeWait limits how long Close waits for the peer's answer. After that the manager finishes in
// the background.
const closeWait = time.Second

// Close ends the connection. Data for which Send and Write have returned is at the peer, or over iWARP with TCP, which
// carries on after Close. Operations in flight fail with ErrDisconnected. Messages that were not received are lost. The
// peer is notified, and Close waits for its answer for at most a second. Closing twice is harmless: a second call
// returns when the first one does.
func (c *Conn) Close() error {
	if c.closing.Swap(true) {
		<-c.closed
		return nil
	}
	defer close(c.closed)
	c.id.Disconnect() // fails if the device is gone
	c.finish.Do(func() { close(c.ended) })
	t := time.NewTimer(closeWait)
	select {
	case <-c.over:
	case <-t.C:
	}
	t.Stop()
	if c.queues != nil {
		c.queues.stop()
	}
	err := c.id.Close()
	if c.queues != nil {
		err = errors.Join(err, c.queues.close())
	}
	if err != nil {
		return fmt.Errorf("cm: closing the connection to %v: %w", c.peer, err)
	}
	return nil
}
