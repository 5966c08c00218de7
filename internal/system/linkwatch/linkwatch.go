// SPDX-License-Identifier: Apache-2.0

// Package linkwatch follows the network interface of a local address, for the state and the
// events of a device's port.
//
// On Linux a netlink socket receives every change in the network namespace in which the watch was
// created, whichever thread reads it. One goroutine waits for it in Go's poller: nothing runs while
// nothing changes. If the system has no netlink, or refuses the socket, the state stays as it was
// at first.
package linkwatch

import (
	"net/netip"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Watch follows the interface of one address.
type Watch struct {
	state atomic.Uint32 // a state
	mtu   atomic.Int32
	feed  *addrReader // nil: the state does not change
}

// state is the state of an address.
type state uint32

const (
	// present: the host has the address.
	present state = 1 << iota
	// up: an interface that has it is up, and so is its link (RFC 2863 ifOperStatus).
	up
)

// New watches an address. index is the interface's number if the address belongs to that interface
// alone, as a link-local one does; 0: any interface. isUp and mtu are the initial state. The caller
// closes the watch.
func New(addr netip.Addr, index int, isUp bool, mtu int) *Watch {
	w := &Watch{}
	now := present
	if isUp {
		now |= up
	}
	w.state.Store(uint32(now))
	w.mtu.Store(int32(mtu))
	w.feed = newAddrFeed(addr.WithZone(""), index)
	return w
}

// PortState returns the state of a port that has the address: active while the address exists and
// its interface is up, and otherwise down.
func (w *Watch) PortState() verbs.PortState {
	if state(w.state.Load())&(present|up) == present|up {
		return verbs.PortActive
	}
	return verbs.PortDown
}

// MTU returns the interface's MTU in bytes: the smallest, if several interfaces have the address.
// While none has it, the MTU keeps its last value.
func (w *Watch) MTU() int { return int(w.mtu.Load()) }

// Follow starts following the system. raise is called for each event of the port (IBTA 11.6.3.3),
// by one goroutine, until the watch is closed: EventGIDChange when the address goes away or comes
// back, EventPortError and EventPortActive when the port's state changes. resized is called in the
// same way when the MTU has changed, for which there is no event.
func (w *Watch) Follow(raise func(verbs.EventType), resized func()) {
	if w.feed == nil {
		return
	}
	w.feed.start(func(now state, mtu int) {
		if mtu != 0 && int(w.mtu.Swap(int32(mtu))) != mtu {
			resized()
		}
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

// Close ends the watch. raise is not called any more once Close has returned. Closing twice is
// harmless.
func (w *Watch) Close() {
	if w.feed != nil {
		w.feed.close()
	}
}
