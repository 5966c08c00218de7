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

// connectRetry is the state for repeating a refused request.
type connectRetry struct {
	limit time.Duration // for how long; 0: never
	until time.Time
	pause time.Duration
	param ConnParam // of Connect
}

// SetConnectRetry lets Connect repeat a request for up to limit if no listener has the peer's port, although this
// device has an established connection to it. Such a server makes a listener for each of several connections, and is
// between two of them. Some programs rely on the next listener being there in time, because the kernel's managers are
// slower to send requests. The default is 0: never. It must be called before Connect.
func (id *ID) SetConnectRetry(limit time.Duration) error {
	if limit < 0 {
		return opErr("set_option", verbs.ErrInvalid, "a time of %v to ask again", limit)
	}
	if err := id.lockIn("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.retry.limit = limit
	return nil
}

// record records the parameters of Connect.
func (a *connectRetry) record(p *ConnParam) {
	if a.limit == 0 {
		return
	}
	a.param = *p
	a.param.PrivateData = slices.Clone(p.PrivateData)
	a.until, a.pause = time.Now().Add(a.limit), firstPause
}

// willRetry reports whether a request that met no listener will be repeated.
func (id *ID) willRetry() bool {
	a := &id.retry
	if id.state != connecting || a.limit == 0 || time.Now().Add(a.pause).After(a.until) || !id.m.connectedTo(id) {
		return false
	}
	time.AfterFunc(a.pause, id.retryConnect)
	a.pause = min(2*a.pause, lastPause)
	return true
}

func (id *ID) retryConnect() {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.m.stopped || id.state != connecting {
		return
	}
	if err := id.ep.connect(&id.retry.param); err != nil {
		id.end(failed, &Event{Type: ConnectError, Err: err})
	}
}

// connectedTo reports whether another id has an established connection to the same port of the peer.
func (m *manager) connectedTo(id *ID) bool {
	for other := range m.ids {
		if other != id && other.state == established && other.peer == id.peer {
			return true
		}
	}
	return false
}
