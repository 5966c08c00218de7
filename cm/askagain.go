// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// firstPause is how long a refused request waits before it is sent again. Each further pause is
// twice as long, up to lastPause.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// askAgain is the state for repeating a refused request.
type askAgain struct {
	limit time.Duration // for how long; 0: never
	until time.Time
	pause time.Duration
	param ConnParam // of Connect
}

// SetAskAgain lets Connect repeat a request for up to limit if nobody listens at the peer's port,
// although this device has an established connection to it. Then the server takes several
// connections with a listener for each, and is between two of them. Some programs rely on the next
// listener being there in time, because the kernel's managers are slower to send requests. The
// default is 0: never. It must be called before Connect.
func (id *ID) SetAskAgain(limit time.Duration) error {
	if limit < 0 {
		return opErr("set_option", verbs.ErrInvalid, "a time of %v to ask again", limit)
	}
	if err := id.in("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.again.limit = limit
	return nil
}

// record records what Connect requests.
func (a *askAgain) record(p *ConnParam) {
	if a.limit == 0 {
		return
	}
	a.param = *p
	a.param.PrivateData = slices.Clone(p.PrivateData)
	a.until, a.pause = time.Now().Add(a.limit), firstPause
}

// asksAgain reports whether a request that met no listener will be repeated.
func (id *ID) asksAgain() bool {
	a := &id.again
	if id.state != connecting || a.limit == 0 || time.Now().Add(a.pause).After(a.until) || !id.m.knows(id) {
		return false
	}
	time.AfterFunc(a.pause, id.askAgain)
	a.pause = min(2*a.pause, lastPause)
	return true
}

func (id *ID) askAgain() {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.m.stopped || id.state != connecting {
		return
	}
	if err := id.ep.connect(&id.again.param); err != nil {
		id.end(failed, &Event{Type: ConnectError, Err: err})
	}
}

// knows reports whether another id has an established connection to the same port of the peer.
func (m *manager) knows(id *ID) bool {
	for other := range m.ids {
		if other != id && other.state == established && other.peer == id.peer {
			return true
		}
	}
	return false
}
