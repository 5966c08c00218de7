// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// connectTime limits how long all queue pairs of one number of peers may take to be connected.
	connectTime = 2 * time.Minute
	// batch is how many completions are taken at once.
	batch = 16
)

// group is a target, and the client side of all its peers. It grows, and never shrinks.
type group struct {
	client client
	target target
	close  []func() error
}

// client is the client device's objects.
type client struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qps []*verbs.QP // by peer
	wcs [batch]verbs.WC

	idle bool // the last WRITE has completed
}

// newGroup creates the objects that all peers share, for up to most peers.
func newGroup(from, to *verbs.Device, stride, most int) (g *group, err error) {
	g = &group{client: client{dev: from}, target: target{dev: to, stride: stride, seen: make([]byte, most)}}
	defer func() {
		if err != nil {
			g.free()
			g = nil
		}
	}()
	if err = g.client.create(g); err == nil {
		err = g.target.create(g, most)
	}
	return g, err
}

func (c *client) create(g *group) (err error) {
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return err
	}
	g.close = append(g.close, c.pd.Close)
	if c.cq, err = c.dev.CreateCQ(batch, nil); err != nil {
		return err
	}
	g.close = append(g.close, c.cq.Close)
	return nil
}

// free closes everything in reverse order.
func (g *group) free() {
	for i := len(g.close) - 1; i >= 0; i-- {
		g.close[i]()
	}
	g.close = nil
}

// grow connects queue pairs until there are n peers. connected is called after each.
func (g *group) grow(ctx context.Context, n int, connected func(have int)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime,
		fmt.Errorf("they took longer than %s", units.Period(connectTime)))
	defer cancel()
	for len(g.client.qps) < n {
		err := context.Cause(ctx)
		if err == nil {
			err = g.add()
		}
		if err != nil {
			return fmt.Errorf("%d of %d queue pairs were connected: %w", len(g.client.qps), n, err)
		}
		connected(len(g.client.qps))
	}
	return nil
}

// add connects one more peer.
func (g *group) add() error {
	// The client receives nothing, the target sends nothing.
	from, err := g.client.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: g.client.cq, RecvCQ: g.client.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 1}})
	if err != nil {
		return err
	}
	g.close = append(g.close, from.Close)
	to, err := g.target.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: g.target.cq, RecvCQ: g.target.cq,
		SRQ: g.target.srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if err != nil {
		return err
	}
	g.close = append(g.close, to.Close)
	here, err := from.Endpoint(0)
	if err != nil {
		return err
	}
	there, err := to.Endpoint(0)
	if err != nil {
		return err
	}
	if err := to.Connect(there, here, nil); err != nil {
		return err
	}
	if err := from.Connect(here, there, nil); err != nil {
		return err
	}
	g.client.qps = append(g.client.qps, from)
	return nil
}
