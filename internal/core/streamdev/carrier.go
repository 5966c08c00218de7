// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Carrier is how the data of a [Device] travel once a stream is set up: as bytes of the stream, or in memory that
// both processes share, for which the stream only carries the set-up and shows when the peer ends (package
// memorydev). Its methods are called with the lock held, unless they say otherwise.
type Carrier interface {
	// Bytes reports whether the data are bytes of the streams, which have packets and may suffer faults.
	Bytes() bool
	// SlotBits is how many bits of a queue pair's number tell devices of one address apart.
	SlotBits() int
	// Shared returns the part that all engines have, and Outbox where the lane's completions gather.
	Shared() *queue.Device
	Outbox() *queue.Outbox
	// Equip gives a queue pair its engine and its endpoint.
	Equip(q *QP, c queue.Config)
	// Patient reports whether the set-up of a stream waits for as long as the peer's process lives, of whose end the
	// network tells.
	Patient() bool
	// RefuseMessages has faults decide which messages find no receive; nil: there are no faults.
	RefuseMessages(x *softdev.Faulty)
	// Loop makes the link of a queue pair to itself.
	Loop() (Link, error)
	// Datagrams returns the maker of UD queue pairs; nil: there are none.
	Datagrams() DatagramMaker
	// Scans reports whether a pass reads the streams one by one, rather than ask the network which
	// of them are ready.
	Scans() bool
	// Arm prepares for a wait: see [softdev.Transport].
	Arm() bool
	// Workers is that of [softdev.Fabric].
	Workers() map[softdev.Worker]uint32
	// Publish copies counters for metrics. The view's lock is held, too.
	Publish()
	// Metrics returns the published metrics. The view's lock is held, the lane's is not.
	Metrics() []metric.Metric
	// Close frees the memory that streams have left behind.
	Close()
}

// DatagramMaker makes UD queue pairs and their address handles. Its methods are called with the lock held.
type DatagramMaker interface {
	NewQP(domain memory.PD, init *verbs.QPInit) (softdev.QueuePair, error)
	NewAH(attr verbs.AHAttr) (driver.AH, error)
}

// Engine is the queue pair of the protocol engine behind a carrier.
type Engine interface {
	softdev.Protocol
	Attr() *verbs.QPAttr
	// Up reports whether there is a stream, and Waiting whether work requests wait for one.
	Up() bool
	Waiting() bool
	// Paused reports whether a message waits for a receive. Resume continues with it.
	Paused() bool
	Resume()
	// Lost reports the end of the stream.
	Lost(orderly bool)
	Destroy()
}

// Endpoint is a queue pair's part of a carrier, while it has a stream.
type Endpoint interface {
	// Begin hands a stream over to the engine. It returns false if the queue pair is in a state
	// that takes none.
	Begin(c *Conn, p rdmap.Params) bool
	// First returns when check is due at first.
	First(p rdmap.Params) clock.Time
	// Check runs timers that are due when the peer has sent nothing, and returns when the next one is due.
	Check() clock.Time
	// Draining reports whether the stream ends when the time of Check has come.
	Draining() bool
	// Watch makes the network report the event that the stream waits for.
	Watch()
	// Receive takes the data that has arrived, and returns how much it found.
	Receive() int
	// Transmit sends the data that is ready.
	Transmit()
	// Resumed continues the message that waited for a receive.
	Resumed()
	// Detach drops messages that are half sent.
	Detach()
	// Prompt reports whether work requests are sent at once, and never held back for the next poll.
	Prompt() bool
}

// NewWith creates a device of a network with the carrier that carry returns, and starts its goroutines.
func NewWith(net Network, attr verbs.DeviceAttr, carry func(*Device) Carrier) (*Device, error) {
	d := &Device{net: net}
	d.carrier = carry(d)
	return d, d.start(attr)
}

// Established returns the connections that have a queue pair. They are the device's: not to be changed.
func (d *Device) Established() []*Conn { return d.established }

// Addr returns the address and port at which the device accepts the streams of queue pairs that connect by number.
func (d *Device) Addr() netip.AddrPort {
	return netip.AddrPortFrom(d.rendezvous.addr, uint16(RendezvousPort+d.rendezvous.slot))
}

// NewQPN returns a random free queue pair number of the device.
func (d *Device) NewQPN() verbs.QPN { return d.rendezvous.newQPN(d) }

// CountNoRoom counts that the system had no room for a peer's link.
func (d *Device) CountNoRoom() { d.links.noRoom++ }

// MaySend reports whether the device may send more in this pass.
func (d *Device) MaySend() bool { return !d.sends.Over }

// Sent counts n bytes that were sent in this pass.
func (d *Device) Sent(n int) {
	now := d.Lane.Now()
	if d.sends.Start == 0 {
		d.sends.Start = now
	}
	d.sends.Sent(n, streamBudgetBytes, now)
}

// Link returns the link of the connection.
func (c *Conn) Link() Link { return c.link }

// Conn returns the connection of the queue pair; nil: it has none.
func (q *QP) Conn() *Conn { return q.conn }

// QP returns the queue pair that has the connection; nil: none has.
func (c *Conn) QP() *QP { return c.qp }

// RNRRetries returns the RNR retry counts that the set-up has agreed on, of this side's messages and of the peer's.
// 7 retries have no end. It must be called before the set-up is over.
func (c *Conn) RNRRetries() (own, peers uint8) {
	const endless = 7
	own = endless - c.handshake.Peer.FewerRNR()
	if c.ownRNR != nil {
		own = *c.ownRNR
	}
	return own, endless - c.handshake.Proposal.FewerRNR
}

// Managed reports whether a connection manager gets the connection's events.
func (c *Conn) Managed() bool { return c.events != nil }

// CheckAt has [Endpoint].Check called at a time.
func (c *Conn) CheckAt(t clock.Time) { c.dev.Lane.Timers.Set(&c.timer, t) }

// CheckBy has it called at that time, unless it will be earlier.
func (c *Conn) CheckBy(t clock.Time) {
	if c.timer.At > t {
		c.CheckAt(t)
	}
}
