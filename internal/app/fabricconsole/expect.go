// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// condition is a condition that a script waits for or expects.
type condition struct {
	what string
	// holds reports whether the condition holds, and if not, the actual state.
	holds func(ctx context.Context, c *Console) (ok bool, instead string, err error)
}

// step is the time between checks of a condition.
const step = 50 * time.Millisecond

// expecting is the action that waits for a condition, up to a limit in the fabric's time.
func expecting(cond condition, limit time.Duration) action {
	return func(ctx context.Context, c *Console) error {
		for waited := time.Duration(0); ; waited += step {
			ok, instead, err := cond.holds(ctx, c)
			if ok || err != nil {
				return err
			}
			if waited >= limit {
				if limit > 0 {
					return fmt.Errorf("not so within %v: %s: %s", limit, cond.what, instead)
				}
				return fmt.Errorf("not so: %s: %s", cond.what, instead)
			}
			if err := c.fabric.Sleep(ctx, min(step, limit-waited)); err != nil {
				return err
			}
		}
	}
}

func parseExpect(w *words) (action, error) {
	no := w.bare("no")
	if !no {
		no = w.bare("not")
	}
	kind, err := w.oneOf("link", "switch", "route", "active", "traffic")
	if err != nil {
		return nil, err
	}
	if kind == 4 {
		return parseTraffic(w, no)
	}
	parse := []func(*words) (condition, error){linkIs, switchIs, routeIs, func(*words) (condition, error) {
		return condition{"active", allActive}, nil
	}}[kind]
	cond, err := parse(w)
	if err != nil {
		return nil, err
	}
	limit, err := w.within(0)
	if no {
		cond = cond.negated()
	}
	return expecting(cond, limit), err
}

// negated is the opposite of a condition.
func (cond condition) negated() condition {
	return condition{"no " + cond.what, func(ctx context.Context, c *Console) (bool, string, error) {
		ok, _, err := cond.holds(ctx, c)
		return !ok, "it is so", err
	}}
}

func linkIs(w *words) (condition, error) {
	t, err := w.port()
	if err != nil {
		return condition{}, err
	}
	i, err := w.oneOf(stateNames()...)
	want := states[i].state
	return condition{fmt.Sprintf("link %v %s", t, states[i].name),
		func(ctx context.Context, c *Console) (bool, string, error) {
			_, p, _, err := c.at(ctx, t)
			if err != nil {
				return false, "", err
			}
			return p.State == want, fmt.Sprintf("it is %s", p.State), nil
		}}, err
}

func switchIs(w *words) (condition, error) {
	t, err := w.target()
	if err != nil {
		return condition{}, err
	}
	i, err := w.oneOf("down", "up")
	return condition{fmt.Sprintf("switch %v %s", t, []string{"down", "up"}[i]),
		func(ctx context.Context, c *Console) (bool, string, error) {
			n, err := c.switchNode(ctx, t)
			if err != nil {
				return false, "", err
			}
			return n.Off == (i == 0), fmt.Sprintf("it is %s", []string{"up", "down"}[i]), nil
		}}, err
}

func routeIs(w *words) (condition, error) {
	from, to, err := w.pair()
	return condition{fmt.Sprintf("route %v %v", from, to), func(ctx context.Context, c *Console) (bool, string, error) {
		_, r, err := c.route(ctx, from, to)
		if err != nil {
			return false, "", err
		}
		return r.Broken == "", r.Broken, nil
	}}, err
}

// allActive reports whether all ports with cables are active, except ports of switches that are off and their
// peers.
func allActive(ctx context.Context, c *Console) (bool, string, error) {
	v, err := c.fabric.View(ctx)
	if err != nil {
		return false, "", err
	}
	states, off := make(map[fabricview.End]fabricview.State), make(map[string]bool)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		off[n.Name] = n.Off
		for _, p := range n.Ports {
			states[fabricview.End{Node: n.Name, Port: p.Number}] = p.State
		}
	}
	var not []string
	for _, l := range v.Links {
		if off[l.A.Node] || off[l.B.Node] {
			continue
		}
		for _, e := range []fabricview.End{l.A, l.B} {
			if states[e] != fabricview.Active {
				not = append(not, fmt.Sprintf("%v is %s", e, states[e]))
				break
			}
		}
	}
	return len(not) == 0, shorter(not), nil
}

// parseTraffic is "traffic END within TIME" (a second, if it is not said): packets pass from now on
// in lanes of data. Subnet management, which never rests, does not count. With no, none may pass in all that time.
func parseTraffic(w *words, no bool) (action, error) {
	t, err := w.port()
	if err != nil {
		return nil, err
	}
	limit, err := w.within(time.Second)
	if err == nil && limit == 0 {
		err = errors.New("traffic needs time to be seen: write within 1s")
	}
	return func(ctx context.Context, c *Console) error {
		e, p, _, err := c.at(ctx, t)
		if err != nil {
			return err
		}
		before := p.Counters
		moved := condition{fmt.Sprintf("traffic %v", t), func(ctx context.Context, c *Console) (bool, string, error) {
			_, p, _, err := c.at(ctx, target{e.Node, e.Port})
			if err != nil {
				return false, "", err
			}
			return p.Counters.LanePackets != before.LanePackets, "no packet has passed", nil
		}}
		if !no {
			return expecting(moved, limit)(ctx, c)
		}
		if err := c.fabric.Sleep(ctx, limit); err != nil {
			return err
		}
		return expecting(moved.negated(), 0)(ctx, c)
	}, err
}
