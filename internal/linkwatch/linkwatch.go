// SPDX-License-Identifier: Apache-2.0

// Package linkwatch follows the network interface of a local address, for the state and the
// events of a device's port.
//
// On Linux a netlink socket is told of every change, of the network namespace in which the
// watch was made, whichever thread reads it. One goroutine waits for it in Go's poller: nothing
// runs while nothing changes. Where the system has no such thing, or refuses the socket, the
// state stays what it was at first.
package linkwatch

import (
	"net/netip"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Watch follows the interface of one address.
type Watch struct {
	state atomic.Uint32 // a state
	feed  *feed         // nil: the state does not change
}

// state is what is known of an address.
type state uint32

const (
	// present: the host has the address.
	present state = 1 << iota
	// up: an interface that has it is up, and so is its link (RFC 2863 ifOperStatus).
	up
)

// New watches an address. index is the number of the interface that alone counts, as for an
// IPv6 address of a link; 0: any. isUp is what is known so far. The caller has it closed.
func New(addr netip.Addr, index int, isUp bool) *Watch {
	w := &Watch{}
	now := present
	if isUp {
		now |= up
	}
	w.state.Store(uint32(now))
	w.feed = newFeed(addr.WithZone(""), index)
	return w
}

// PortState returns the state of a port that has the address: active while the address is
// there and its interface is up, and otherwise down.
func (w *Watch) PortState() verbs.PortState {
	if state(w.state.Load())&(present|up) == present|up {
		return verbs.PortActive
	}
	return verbs.PortDown
}

// Follow has the state follow the system's from now on. raise is called for each event of the
// port, by one goroutine, until the watch is closed: EventGIDChange when the address goes or
// comes back, EventPortError and EventPortActive when the port's state changes
// (IBTA 11.6.3.3).
func (w *Watch) Follow(raise func(verbs.EventType)) {
	if w.feed == nil {
		return
	}
	w.feed.start(func(now state) {
		before := w.PortState()
		was := state(w.state.Swap(uint32(now)))
		if (was^now)&present != 0 {
			raise(verbs.EventGIDChange)
		}
		switch after := w.PortState(); {
		case after == before:
		case after == verbs.PortActive:
			raise(verbs.EventPortActive)
		default:
			raise(verbs.EventPortError)
		}
	})
}

// Close ends the watch. raise is not called any more when it returns. Closing twice is
// harmless.
func (w *Watch) Close() {
	if w.feed != nil {
		w.feed.close()
	}
}
