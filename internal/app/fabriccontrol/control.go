// SPDX-License-Identifier: Apache-2.0

package fabriccontrol

import (
	"context"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// loadInterval is the least time over which loads are measured.
const loadInterval = 200 * time.Millisecond

// Control operates a fabric of this process, for a fabricconsole.Console.
type Control struct {
	fabric *infiniband.Fabric

	mu     sync.Mutex
	at     time.Time // of before
	before *fabricview.View
}

// New returns the control of a fabric.
func New(f *infiniband.Fabric) *Control {
	return &Control{fabric: f, at: time.Now(), before: View(f.View())}
}

// View returns a snapshot of the fabric. Its traffic is measured since an earlier view.
func (c *Control) View(context.Context) (*fabricview.View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, now := View(c.fabric.View()), time.Now()
	if passed := now.Sub(c.at); passed > 0 {
		addLoads(v, c.before, passed)
	}
	if now.Sub(c.at) >= loadInterval {
		c.at, c.before = now, v
	}
	return v, nil
}

// Route returns the route from an adapter's port to another one.
func (c *Control) Route(_ context.Context, from, to fabricview.End) (*fabricview.Route, error) {
	hops, arrives, err := c.fabric.Route(infiniband.End(from), infiniband.End(to))
	if err != nil {
		return nil, err
	}
	return routeOf(View(c.fabric.View()), from, to, hops, arrives), nil
}

// Link plugs in a cable.
func (c *Control) Link(_ context.Context, a, b fabricview.End) error {
	return c.fabric.Plug(infiniband.End(a), infiniband.End(b))
}

// Unlink pulls a cable.
func (c *Control) Unlink(_ context.Context, e fabricview.End) error {
	return c.fabric.Pull(infiniband.End(e))
}

// Relink plugs the cable of an adapter that has joined in again.
func (c *Control) Relink(_ context.Context, e fabricview.End) error {
	return c.fabric.Relink(infiniband.End(e))
}

// SetSwitch powers a switch off, or on again.
func (c *Control) SetSwitch(_ context.Context, name string, up bool) error {
	return c.fabric.Power(name, up)
}

// SetErrorRate makes a cable corrupt packets.
func (c *Control) SetErrorRate(_ context.Context, e fabricview.End, rate float64) error {
	return c.fabric.SetErrorRate(infiniband.End(e), rate)
}

// Hold withholds the credits of a lane, or grants them again.
func (c *Control) Hold(_ context.Context, e fabricview.End, vl int, on bool) error {
	return c.fabric.HoldCredits(infiniband.End(e), vl, on)
}

// SetGUID changes a GUID.
func (c *Control) SetGUID(_ context.Context, e fabricview.End, guid fabricview.GUID) error {
	return c.fabric.SetGUID(infiniband.End(e), uint64(guid))
}

// ClearCounters sets counters to 0.
func (c *Control) ClearCounters(_ context.Context, e fabricview.End) error {
	return c.fabric.ClearCounters(infiniband.End(e))
}

// Sleep waits.
func (c *Control) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Remote returns a view of a fabric that another process runs. It takes interval, over which traffic is measured.
func Remote(ctx context.Context, name string, interval time.Duration) (*fabricview.View, error) {
	first, err := infiniband.View(name)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	select {
	case <-time.After(interval):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := infiniband.View(name)
	if err != nil {
		return nil, err
	}
	v := View(second)
	addLoads(v, View(first), time.Since(start))
	return v, nil
}

// RemoteRoute returns a route on a fabric of another process; v is a view of it.
func RemoteRoute(name string, v *fabricview.View, from, to fabricview.End) (*fabricview.Route, error) {
	hops, arrives, err := infiniband.Route(name, infiniband.End(from), infiniband.End(to))
	if err != nil {
		return nil, err
	}
	return routeOf(v, from, to, hops, arrives), nil
}
