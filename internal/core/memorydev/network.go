// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
)

// Network is a [streamdev.Network] between processes of one host, which share memory. Its links carry the
// set-up of streams, and say when a peer ends. Its methods are called with the device's lock held, and
// do not block.
type Network interface {
	streamdev.Network
	// NewDomain returns a domain, which tells peers of a protection domain's queue pairs of its regions.
	NewDomain() (Domain, error)
	// Allocate makes memory that can be published: for peers to write to, or to read only. It is
	// a segment with a number, which is not 0.
	Allocate(size int, writable bool) (mem []byte, free func(), segment uint64, err error)
	// DialNow is Dial that fails at once, with ECONNREFUSED, where nobody listens.
	DialNow(from, to netip.AddrPort) (Link, error)
	// ListenGroup opens a listener of a multicast group, and tells the watchers of the group. Its listeners are at
	// the group's address, and have the ports 1 to [MaxGroupListeners]. EADDRINUSE means that all are taken.
	ListenGroup(group netip.Addr, backlog int) (streamdev.Acceptor, error)
	// WatchGroup reports listeners that are opened from now on.
	WatchGroup(group netip.Addr) (GroupWatch, error)
	// Loop makes the link of a queue pair to itself.
	Loop() (Link, error)
	// Arm has peers wake Wait from now on when they do something. It returns false if one has done
	// so already, and Ready is to be called first.
	Arm() bool
	// Leaving calls f with the peers that still work in memory of this process after their links
	// were closed.
	Leaving(f func(softdev.Worker))
}

// GroupWatch reports new listeners of a group.
type GroupWatch interface {
	// Changed reports whether listeners may have been opened since the last call.
	Changed() bool
	Close() error
}

// Domain tells peers of the regions of a protection domain. An entry without a segment says that there
// is a region, but not where.
type Domain interface {
	Publish(e local.Entry)
	Withdraw(e local.Entry, gone bool) // gone: its segment is no more
	Close()
}

// Link is a [streamdev.Link] of a [Network].
type Link interface {
	streamdev.Link
	streamdev.Holder
	// Join lets the peer use the memory that is published in a domain, if there is one, and returns this side's
	// endpoint. From then on Ready reports the link when the peer did something.
	Join(d Domain) (*local.Peer, error)
	// Ring wakes the peer.
	Ring()
	// Work returns a number that is odd while the peer works in memory of this process, and changes
	// when it stops.
	Work() uint32
	// Again has the next Ready report the link, whatever the peer does.
	Again()
}
