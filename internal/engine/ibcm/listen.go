// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A listener waits for requests for a service.
type listener struct {
	ListenParams
	backlog
}

const allServiceBits = ^mad.ServiceID(0)

// Listen creates a listener. It returns [ErrInUse] if there is one with the same service and mask.
func (e *Engine) Listen(p ListenParams) error {
	if p.Mask == 0 {
		p.Mask = allServiceBits
	}
	p.Service &= p.Mask
	if p.Backlog <= 0 {
		p.Backlog = defaultBacklog
	}
	if p.ServiceTimeout == 0 {
		p.ServiceTimeout = defaultServiceTimeout
	}
	if e.listener(p.Service, p.Mask) != nil {
		return opErr("listen", ErrInUse, fmt.Sprintf("service ID 0x%x, mask 0x%x", uint64(p.Service), uint64(p.Mask)))
	}
	l := &listener{ListenParams: p, backlog: backlog{limit: p.Backlog, sources: map[peer]*source{}}}
	if p.Mask == allServiceBits {
		e.services[p.Service] = l
		return nil
	}
	e.ranges = append(e.ranges, l)
	slices.SortStableFunc(e.ranges, func(a, b *listener) int {
		return bits.OnesCount64(uint64(b.Mask)) - bits.OnesCount64(uint64(a.Mask))
	})
	return nil
}

// Unlisten removes the listener of this service and mask, and rejects its unanswered requests: they
// are dropped without an event.
func (e *Engine) Unlisten(now clock.Time, service, mask mad.ServiceID) error {
	if mask == 0 {
		mask = allServiceBits
	}
	l := e.listener(service&mask, mask)
	if l == nil {
		return opErr("unlisten", ErrNotFound, fmt.Sprintf("service ID 0x%x, mask 0x%x", uint64(service), uint64(mask)))
	}
	if mask == allServiceBits {
		delete(e.services, service)
	}
	e.ranges = slices.DeleteFunc(e.ranges, func(r *listener) bool { return r == l })
	for f := l.unanswered.Front(); f != nil; f = l.unanswered.Front() {
		e.release(now, f.Value.(*conn))
	}
	return nil
}

// listener returns the listener with exactly this service and mask.
func (e *Engine) listener(service, mask mad.ServiceID) *listener {
	if mask == allServiceBits {
		return e.services[service]
	}
	for _, l := range e.ranges {
		if l.Service == service && l.Mask == mask {
			return l
		}
	}
	return nil
}

// match returns the listener for a request.
func (e *Engine) match(service mad.ServiceID) *listener {
	if l := e.services[service]; l != nil {
		return l
	}
	for _, l := range e.ranges {
		if service&l.Mask == l.Service {
			return l
		}
	}
	return nil
}
