// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// spec is a command: its name and arguments, its help text, and its parser.
type spec struct {
	usage string
	help  string
	parse func(w *words) (action, error)
}

// commands are all commands, in the order of help.
var commands []spec

func init() {
	commands = []spec{
		{`dump [NODE]`, "show the fabric, or a node with its counters", showing(dump)},
		{`route FROM TO`, "show the way of packets; nodes, ports or LIDs", parseRoute},
		{`counters [NODE]`, "show counters that are not 0", showing((*fabricview.View).WriteCounters)},
		{`clear [NODE[PORT]]`, "set counters to 0", parseClear},
		{`svg FILE [FROM TO]`, "draw the fabric, and a route, into a file", parseSVG},
		{`link NODE[PORT] NODE[PORT]`, "plug a cable in", parseLink},
		{`unlink NODE[PORT]`, "pull a cable; without a port, all of the node", parseUnlink},
		{`relink NODE[PORT]`, "plug cables in again that unlink has pulled", parseRelink},
		{`switch NODE down|up`, "take a switch down, or up again", parseSwitch},
		{`error NODE[PORT] RATE`, "corrupt so many of 4 KiB packets: 0.01 or 1%", parseError},
		{`hold NODE[PORT] VL on|off`, "hold back the credits of a virtual lane", parseHold},
		{`guid [NODE[PORT] [GUID]]`, "show GUIDs, or change one", parseGUID},
		{`wait TIME|active [within TIME]`, "wait, or until all links are active (60s)", parseWait},
		{`expect [no] STATE [within TIME]`, "fail unless it is so: see below", parseExpect},
		{`print TEXT`, "write a line", nil}, // takes the rest of the line verbatim
		{`run FILE`, "run a script; !FILE means the same", parseRun},
		{`help`, "show this", parseHelp},
		{`quit`, "end", func(*words) (action, error) {
			return func(context.Context, *Console) error { return ErrQuit }, nil
		}},
	}
}

const expectations = `
States to expect:
  link NODE[PORT] up|down|STATE   the port is Active, Down, Initialize or Armed
  switch NODE up|down             the switch runs, or does not
  route FROM TO                   packets find their way
  active                          all ports with a cable are active
  traffic NODE[PORT]              packets of data lanes pass; with "no", none
`

func parseHelp(*words) (action, error) {
	return func(_ context.Context, c *Console) error {
		b := []byte("Commands, which may be shortened:\n")
		for _, s := range commands {
			b = fmt.Appendf(b, "  %-31s %s\n", s.usage, s.help)
		}
		_, err := c.out.Write(append(b, expectations...))
		return err
	}, nil
}

// printing writes a text; quotes around it are not part of it.
func printing(text string) action {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	return func(_ context.Context, c *Console) error {
		_, err := fmt.Fprintln(c.out, text)
		return err
	}
}

// optional takes a target if there is one.
func (w *words) optional() (t target, ok bool, err error) {
	if len(w.rest) == 0 {
		return target{}, false, nil
	}
	t, err = w.target()
	return t, true, err
}

// showing parses a command that shows the fabric, or a node.
func showing(write func(v *fabricview.View, w io.Writer, node string) error) func(*words) (action, error) {
	return func(w *words) (action, error) {
		t, one, err := w.optional()
		return func(ctx context.Context, c *Console) error {
			v, err := c.fabric.View(ctx)
			if err != nil {
				return err
			}
			name := ""
			if one {
				n, err := find(v, t)
				if err != nil {
					return err
				}
				name = n.Name
			}
			return write(v, c.out, name)
		}, err
	}
}

func dump(v *fabricview.View, w io.Writer, node string) error {
	if node == "" {
		return v.WriteText(w)
	}
	return v.WriteNode(w, node)
}

func parseClear(w *words) (action, error) {
	t, one, err := w.optional()
	return func(ctx context.Context, c *Console) error {
		if !one {
			return c.fabric.ClearCounters(ctx, fabricview.End{})
		}
		e, _, _, err := c.at(ctx, t)
		if err != nil {
			return err
		}
		if t.port == 0 {
			e.Port = 0
		}
		return c.fabric.ClearCounters(ctx, e)
	}, err
}

// pair takes the two ends of a route.
func (w *words) pair() (from, to target, err error) {
	if from, err = w.target(); err == nil {
		to, err = w.target()
	}
	return from, to, err
}

// route finds a route in a new view.
func (c *Console) route(ctx context.Context, from, to target) (*fabricview.View, *fabricview.Route, error) {
	a, _, v, err := c.at(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	b, _, err := port(v, to)
	if err != nil {
		return nil, nil, err
	}
	r, err := c.fabric.Route(ctx, a, b)
	return v, r, err
}

func parseRoute(w *words) (action, error) {
	from, to, err := w.pair()
	return func(ctx context.Context, c *Console) error {
		v, r, err := c.route(ctx, from, to)
		if err != nil {
			return err
		}
		return v.WriteRoute(c.out, r)
	}, err
}

func parseSVG(w *words) (action, error) {
	file, err := w.next("the name of the file")
	if err != nil {
		return nil, err
	}
	if file.text == "" || file.port != 0 {
		return nil, errors.New("the name of the file is missing: write it between quotes if it has brackets")
	}
	routed := len(w.rest) > 0
	var from, to target
	if routed {
		from, to, err = w.pair()
	}
	return func(ctx context.Context, c *Console) error {
		var v *fabricview.View
		var r *fabricview.Route
		var err error
		if routed {
			v, r, err = c.route(ctx, from, to)
		} else {
			v, err = c.fabric.View(ctx)
		}
		if err != nil {
			return err
		}
		v.Route = r
		f, err := os.Create(file.text)
		if err != nil {
			return err
		}
		return errors.Join(v.WriteSVG(f), f.Close())
	}, err
}

func parseLink(w *words) (action, error) {
	a, err := w.port()
	if err != nil {
		return nil, err
	}
	b, err := w.port()
	return func(ctx context.Context, c *Console) error {
		from, _, v, err := c.at(ctx, a)
		if err != nil {
			return err
		}
		to, _, err := port(v, b)
		if err != nil {
			return err
		}
		return c.plug(ctx, v, from, to)
	}, err
}

// plug plugs in a cable, if both ports have none.
func (c *Console) plug(ctx context.Context, v *fabricview.View, a, b fabricview.End) error {
	if a == b {
		return fmt.Errorf("both ends are %v: a cable connects two ports", a)
	}
	for _, e := range []fabricview.End{a, b} {
		if o, ok := other(v, e); ok {
			return fmt.Errorf("%v has a cable already, to %v: unlink it first", e, o)
		}
	}
	if err := c.fabric.Link(ctx, a, b); err != nil {
		return err
	}
	for _, e := range []fabricview.End{a, b} {
		if o, ok := c.pulled[e]; ok {
			delete(c.pulled, e)
			delete(c.pulled, o)
		}
	}
	return nil
}

// ends returns the ports that a target selects: one, or all of a node.
func ends(v *fabricview.View, t target) ([]fabricview.End, error) {
	if t.port != 0 {
		e, _, err := port(v, t)
		return []fabricview.End{e}, err
	}
	n, err := find(v, t)
	if err != nil {
		if e, p := farPort(v, t); p != nil {
			return []fabricview.End{e}, nil
		}
		return nil, err
	}
	var all []fabricview.End
	for _, p := range n.Ports {
		all = append(all, fabricview.End{Node: n.Name, Port: p.Number})
	}
	return all, nil
}

func parseUnlink(w *words) (action, error) {
	t, err := w.target()
	return func(ctx context.Context, c *Console) error {
		v, err := c.fabric.View(ctx)
		if err != nil {
			return err
		}
		all, err := ends(v, t)
		if err != nil {
			return err
		}
		pulled := make(map[fabricview.End]bool)
		for _, e := range all {
			if far := farOf(v, e); far != nil && !far.Pulled {
				if err := c.fabric.Unlink(ctx, e); err != nil {
					return err
				}
				pulled[e] = true
				continue
			}
			o, ok := other(v, e)
			if !ok || pulled[e] { // the other end of a cable within the node
				continue
			}
			if err := c.fabric.Unlink(ctx, e); err != nil {
				return err
			}
			c.pulled[e], c.pulled[o] = o, e
			pulled[o] = true
		}
		if len(pulled) == 0 {
			return fmt.Errorf("%v has no cable: there is nothing to pull", t)
		}
		return nil
	}, err
}

func parseRelink(w *words) (action, error) {
	t, err := w.target()
	return func(ctx context.Context, c *Console) error {
		v, err := c.fabric.View(ctx)
		if err != nil {
			return err
		}
		all, err := ends(v, t)
		if err != nil {
			return err
		}
		plugged := 0
		for _, e := range all {
			if far := farOf(v, e); far != nil && far.Pulled {
				if err := c.fabric.Relink(ctx, e); err != nil {
					return err
				}
				plugged++
				continue
			}
			o, ok := c.pulled[e]
			if !ok {
				continue
			}
			if err := c.plug(ctx, v, e, o); err != nil {
				return err
			}
			plugged++
		}
		if plugged == 0 {
			return fmt.Errorf("no cable of %v was pulled here: use link, and say where it goes", t)
		}
		return nil
	}, err
}

func parseSwitch(w *words) (action, error) {
	t, err := w.target()
	if err != nil {
		return nil, err
	}
	up, err := w.oneOf("down", "up")
	return func(ctx context.Context, c *Console) error {
		n, err := c.switchNode(ctx, t)
		if err != nil {
			return err
		}
		return c.fabric.SetSwitch(ctx, n.Name, up == 1)
	}, err
}

func (c *Console) switchNode(ctx context.Context, t target) (*fabricview.Node, error) {
	v, err := c.fabric.View(ctx)
	if err != nil {
		return nil, err
	}
	n, err := find(v, t)
	if err == nil && n.Type != fabricview.Switch {
		return nil, fmt.Errorf("%q is not a switch: unlink pulls the cables of an adapter", n.Name)
	}
	return n, err
}

func parseError(w *words) (action, error) {
	t, err := w.port()
	if err != nil {
		return nil, err
	}
	rate, err := w.rate()
	return func(ctx context.Context, c *Console) error {
		e, _, _, err := c.at(ctx, t)
		if err != nil {
			return err
		}
		return c.fabric.SetErrorRate(ctx, e, rate)
	}, err
}

func parseHold(w *words) (action, error) {
	t, err := w.port()
	if err != nil {
		return nil, err
	}
	lane, err := w.next("the virtual lane")
	if err != nil {
		return nil, err
	}
	vl, err := strconv.ParseUint(lane.text, 10, 8)
	if err != nil || vl > 14 || lane.port != 0 {
		return nil, fmt.Errorf("%q is not a virtual lane for data: they are 0 to 14", lane.text)
	}
	off, err := w.oneOf("on", "off")
	return func(ctx context.Context, c *Console) error {
		e, _, _, err := c.at(ctx, t)
		if err != nil {
			return err
		}
		return c.fabric.Hold(ctx, e, int(vl), off == 0)
	}, err
}

func parseGUID(w *words) (action, error) {
	t, one, err := w.optional()
	if err != nil {
		return nil, err
	}
	var guid fabricview.GUID
	set := len(w.rest) > 0
	if set {
		text, _ := w.next("")
		if err := guid.UnmarshalText([]byte(text.text)); err != nil || guid == 0 || text.port != 0 {
			return nil, fmt.Errorf("%q is not a GUID: write it as 0x0002c90300293e1e", text.text)
		}
	}
	return func(ctx context.Context, c *Console) error {
		v, err := c.fabric.View(ctx)
		if err != nil {
			return err
		}
		if !one {
			return c.showGUIDs(v.Nodes)
		}
		n, err := find(v, t)
		if err != nil {
			return err
		}
		if !set {
			return c.showGUIDs([]fabricview.Node{*n})
		}
		if t.port == 0 {
			return c.fabric.SetGUID(ctx, fabricview.End{Node: n.Name}, guid)
		}
		e, _, err := port(v, t)
		if err != nil {
			return err
		}
		if n.Type == fabricview.Switch {
			return fmt.Errorf("ports of switches have no GUIDs: leave %q's port out", n.Name)
		}
		return c.fabric.SetGUID(ctx, e, guid)
	}, nil
}

func (c *Console) showGUIDs(nodes []fabricview.Node) error {
	var b []byte
	for i := range nodes {
		n := &nodes[i]
		b = fmt.Appendf(b, "%v  %s\n", n.GUID, n.Name)
		for _, p := range n.Ports {
			if p.GUID != 0 {
				b = fmt.Appendf(b, "%v    %s[%d]\n", p.GUID, n.Name, p.Number)
			}
		}
	}
	_, err := c.out.Write(b)
	return err
}

func parseRun(w *words) (action, error) {
	file, err := w.next("the name of the file")
	return func(ctx context.Context, c *Console) error { return c.file(ctx, file.text) }, err
}

func parseWait(w *words) (action, error) {
	if w.bare("active") {
		limit, err := w.within(time.Minute)
		return expecting(condition{what: "active", holds: allActive}, limit), err
	}
	d, err := w.duration()
	return func(ctx context.Context, c *Console) error { return c.fabric.Sleep(ctx, d) }, err
}

// states are the words of link expectations.
var states = []struct {
	name  string
	state fabricview.State
}{
	{"up", fabricview.Active}, {"down", fabricview.Down}, {"active", fabricview.Active},
	{"initialize", fabricview.Initialize}, {"armed", fabricview.Armed},
}

func stateNames() (names []string) {
	for _, s := range states {
		names = append(names, s.name)
	}
	return names
}

// shorter is how a list of ends reads in an error.
func shorter(all []string) string {
	if len(all) > 5 {
		return strings.Join(all[:5], ", ") + fmt.Sprintf(" and %d more", len(all)-5)
	}
	return strings.Join(all, ", ")
}
