// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxQueryTime limits a query without a timeout from the caller.
const maxQueryTime = time.Minute

// ask runs a query, and calls done with its result, with the manager's lock held: at once if there
// is nothing to ask, and otherwise when the query has ended, unless the id or its device is closed
// by then. It is called with the manager's lock held. cancel ends the query early; it is nil if
// there is none.
func (id *ID) ask(q query, limit time.Duration, done func(error)) (cancel context.CancelFunc) {
	if q == nil {
		done(nil)
		return nil
	}
	if id.queries == nil {
		id.queries, id.endQueries = context.WithCancel(context.Background())
	}
	if limit <= 0 || limit > maxQueryTime {
		limit = maxQueryTime
	}
	ctx, cancel := context.WithTimeout(id.queries, limit)
	go func() {
		err := q(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = opErr("resolve", ErrTimeout, "no answer within %v", limit)
		}
		cancel()
		id.m.mu.Lock()
		defer id.m.unlock()
		if id.state != closed && id.state != removed {
			done(err)
		}
	}()
	return cancel
}

// locate returns the query that asks the device where the peer is; nil: it knows.
func (id *ID) locate() query {
	l, ok := driver.DeviceOf(id.dev).(driver.Connector)
	if !ok {
		return nil
	}
	ask := l.LocatePeer(ib.GIDFromAddr(id.peer.Addr()))
	if ask == nil {
		return nil
	}
	return func(ctx context.Context) error {
		err := ask(ctx)
		if err != nil && ctx.Err() == nil {
			return &verbs.OpError{Op: "resolve_addr", Err: ErrNoAddr, Detail: err.Error()}
		}
		return err
	}
}

// checkRoute asks the device whether its network has a route to the peer, which may have a zone.
func (id *ID) checkRoute(zone string) error {
	r, ok := driver.DeviceOf(id.dev).(driver.Connector)
	if !ok {
		return nil
	}
	if err := r.CheckRoute(id.local.Addr(), id.peer.Addr().WithZone(zone)); err != nil {
		return &verbs.OpError{Op: "resolve_addr", Err: ErrNoAddr, Detail: err.Error()}
	}
	return nil
}
