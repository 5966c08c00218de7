// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"context"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Port connects a device to its peers. It is the device's only port, or all of them, numbered as in
// [PortState]. Resolve, Connect, Disconnect, Send, Receive and the group calls come with the device's lock
// held; the others do not.
type Port interface {
	softdev.PortState
	Limits() ibta.Limits
	// Resolve checks an address vector, whose Port is set, and returns the path. Its methods come
	// with the device's lock held, too.
	Resolve(attr *verbs.AHAttr) (ibta.Path, error)
	// Connect reports that queue pairs are connected by a path, and Disconnect that none is
	// connected any more to the host that it leads to.
	Connect(ibta.Path)
	Disconnect(ibta.Path)

	// Send transmits a batch, or returns ErrAgain. After any other error the batch is lost.
	Send(b *ibta.Batch) error
	// Receive calls deliver for each good packet that has arrived, without waiting. It returns how
	// many buffers it found, good or not.
	Receive(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error)
	// WantHeaders requests arrivals with the fields of a GRH.
	WantHeaders()
	// JoinGroup makes a port receive packets to a multicast group, and LeaveGroup undoes that. lid is the group's on
	// fabrics that have LIDs.
	JoinGroup(port int, gid verbs.GID, lid uint16) error
	LeaveGroup(port int, gid verbs.GID, lid uint16) error

	// Wait blocks until something arrives, the deadline passes or Wake is called; with
	// writable also until a Send may succeed again.
	Wait(writable bool) error
	SetDeadline(t time.Time)
	Wake()
	Close() error
}

// LossCounter is a Port whose network counts the packets that it loses. Its methods come with the device's lock held.
type LossCounter interface {
	ibta.Network
	// Dropped reports that the device has dropped n packets that it had received. Their senders may have to send
	// them again.
	Dropped(n uint64)
}

// LocatePeer returns a function that resolves a peer's address; nil: there is nothing to resolve.
func (d *Device) LocatePeer(gid verbs.GID) func(context.Context) error {
	l, ok := d.port.(softdev.Locator)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error { return l.Locate(ctx, gid) }
}

// Freer is a Port that keeps for pending calls, when it is closed, something that they use.
type Freer interface {
	// Free is called after Close, when none is pending. The device's lock is held.
	Free()
}

// Recorder is a Port that may record its packets.
type Recorder interface {
	// RecordLost records a batch as Send would, which is not sent.
	RecordLost(b *ibta.Batch)
}

// Refuser is a Port whose network reports addresses where nobody receives.
type Refuser interface {
	// Refused waits for that, or until ctx ends; see [umad.Agent.Refused]. The device's lock is
	// not held.
	Refused(ctx context.Context, to ibta.Path) error
}
