// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// faulted returns the query of a call that a fault wants to fail, or q. The manager's lock is held.
func faulted(drv driver.Device, call string, q query) query {
	t, ok := drv.(faults.Target)
	if !ok {
		return q
	}
	if err := t.FailCall(call); err != nil {
		return func(context.Context) error { return err }
	}
	return q
}

// rejects returns the reason for which a fault wants a request to or from a peer rejected; 0: there is none.
func rejects(drv driver.Device, way faults.Way, peer netip.Addr) mad.Reason {
	if t, ok := drv.(faults.Target); ok {
		if reason, yes := t.Rejects(way, peer); yes {
			return mad.Reason(reason)
		}
	}
	return 0
}

// rejectedHere ends a request that a fault rejects before it is sent.
func (id *ID) rejectedHere(why mad.Reason) {
	id.state = connecting
	id.end(failed, &Event{Type: Rejected, Err: &RejectError{Address: id.peer.String(), Reason: why}})
}
