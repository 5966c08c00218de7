// SPDX-License-Identifier: Apache-2.0

// Package fabricconsole is the command language of a soft InfiniBand fabric: cables are plugged and pulled, switches go
// down, packets are corrupted, routes are shown, and scripts state expectations. Names of commands are those of ibsim's
// console where it has the command.
//
// A line is a command and its arguments: names of nodes, with quotes if they have spaces in them, and
// ports behind them in brackets.
//
//	unlink "leaf-1"[3]
//	expect route host-1 host-8 within 5s
//
// Commands may be shortened as long as they are clear. # begins a comment. The same lines may be
// typed, and stand in files: see [Console.Script] and [Console.Interact].
package fabricconsole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
	"github.com/ramjet-rdma/ramjet/internal/core/spell"
)

// Fabric is the fabric that the console operates on. Ends passed to it exist in the last view. Its errors have the
// cause and the remedy; the console adds the position of the command.
type Fabric interface {
	// View returns a snapshot of the fabric, without a route.
	View(ctx context.Context) (*fabricview.View, error)
	// Route returns the route from one adapter port to another. A broken route is not an error.
	Route(ctx context.Context, from, to fabricview.End) (*fabricview.Route, error)
	// Link plugs a cable into two ports that have none.
	Link(ctx context.Context, a, b fabricview.End) error
	// Unlink pulls the cable at a port.
	Unlink(ctx context.Context, end fabricview.End) error
	// Relink plugs the cable to an adapter of another host in again, which Unlink has pulled.
	Relink(ctx context.Context, end fabricview.End) error
	// SetSwitch powers a switch off, or on again.
	SetSwitch(ctx context.Context, name string, up bool) error
	// SetErrorRate makes the cable at a port corrupt a share, from 0 to 1, of packets with 4,096 bytes of payload, and
	// fewer of shorter ones: it is by bit.
	SetErrorRate(ctx context.Context, end fabricview.End, rate float64) error
	// Hold makes a port withhold the credits of a data VL, or grant them again.
	Hold(ctx context.Context, end fabricview.End, vl int, on bool) error
	// SetGUID changes the GUID of a node (port 0) or of an adapter's port.
	SetGUID(ctx context.Context, end fabricview.End, guid fabricview.GUID) error
	// ClearCounters sets counters to 0: of a port, of all ports of a node (port 0), or, without a
	// name, of all nodes.
	ClearCounters(ctx context.Context, end fabricview.End) error
	// Sleep waits, in the fabric's time.
	Sleep(ctx context.Context, d time.Duration) error
}

// Error is a failure of a line.
type Error struct {
	File string
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// ErrQuit is returned by a line that ends the console.
var ErrQuit = errors.New("quit")

// Console runs commands on a fabric. It is used by one goroutine at a time.
type Console struct {
	fabric Fabric
	out    io.Writer
	pulled map[fabricview.End]fabricview.End // cables that unlink pulled, by both ends, for relink
	depth  int                               // of scripts that run others

	mu       sync.Mutex
	terminal *term.Terminal // that Interact reads from
}

// New returns a console that writes to out.
func New(f Fabric, out io.Writer) *Console {
	return &Console{fabric: f, out: out, pulled: make(map[fabricview.End]fabricview.End)}
}

// Tell writes a line asynchronously, outside of any command. On a terminal it is above the line that is being
// typed. Any goroutine may call it.
func (c *Console) Tell(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terminal != nil {
		fmt.Fprintln(c.terminal, line)
		return
	}
	fmt.Fprintln(c.out, line)
}

// action is a parsed command.
type action func(ctx context.Context, c *Console) error

// Line runs one command. It returns [ErrQuit] when that is quit.
func (c *Console) Line(ctx context.Context, line string) error {
	act, err := parse(line)
	if err != nil || act == nil {
		return err
	}
	return act(ctx, c)
}

// Script runs the commands of a text up to the first that fails; errors call the text by name. All lines are read
// before the first one is run: lines with errors are reported at once, as joined values of type *[Error]. A script that
// quits ends without an error.
func (c *Console) Script(ctx context.Context, name, text string) error {
	var acts []action
	var lines []int
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		act, err := parse(line)
		if err != nil {
			if errs = append(errs, &Error{name, i + 1, err}); len(errs) == 10 {
				break
			}
		} else if act != nil {
			acts, lines = append(acts, act), append(lines, i+1)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for i, act := range acts {
		if err := ctx.Err(); err != nil {
			return &Error{name, lines[i], err}
		}
		if err := act(ctx, c); errors.Is(err, ErrQuit) {
			return nil
		} else if err != nil {
			return &Error{name, lines[i], err}
		}
	}
	return nil
}

// maxDepth limits how deep scripts run other scripts.
const maxDepth = 8

// file runs a script in a file.
func (c *Console) file(ctx context.Context, name string) error {
	if c.depth == maxDepth {
		return fmt.Errorf("%d scripts run each other: does one run itself?", maxDepth)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	c.depth++
	defer func() { c.depth-- }()
	return c.Script(ctx, name, string(text))
}

// target is a node, or a port of a node, as written by the user.
type target struct {
	name string
	port int // 0: not given
}

func (t target) String() string {
	if t.port == 0 {
		return strconv.Quote(t.name)
	}
	return fmt.Sprintf("%q[%d]", t.name, t.port)
}

// find returns the node that a target names: by its name or IP address, its label if no other has it, or the LID.
func find(v *fabricview.View, t target) (*fabricview.Node, error) {
	var labelled []*fabricview.Node
	lid, notLID := strconv.ParseUint(t.name, 0, 16)
	var byLID *fabricview.Node
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Name == t.name || n.IP != "" && n.IP == t.name {
			return n, nil
		}
		if n.Label() == t.name || n.Description == t.name {
			labelled = append(labelled, n)
		}
		has := func(p fabricview.Port) bool { return uint64(p.LID) == lid }
		if notLID == nil && lid != 0 && (uint64(n.LID) == lid || slices.ContainsFunc(n.Ports, has)) {
			byLID = n
		}
	}
	switch {
	case len(labelled) == 1:
		return labelled[0], nil
	case len(labelled) > 1:
		return nil, fmt.Errorf("%d nodes are described as %q: use a name, such as %q", len(labelled), t.name,
			labelled[0].Name)
	case byLID != nil:
		return byLID, nil
	}
	if near := nearest(v, t.name); near != "" {
		return nil, fmt.Errorf("there is no node %q: do you mean %q? dump and ramjet fabric show list all", t.name,
			near)
	}
	return nil, fmt.Errorf("there is no node %q: dump and ramjet fabric show list all", t.name)
}

// nearest returns the existing name that is most similar to an unknown one, if it is similar enough.
func nearest(v *fabricview.View, name string) string {
	names := make([]string, len(v.Nodes))
	for i := range v.Nodes {
		names[i] = v.Nodes[i].Name
	}
	return spell.Nearest(name, names, 2)
}

// port returns the port that a target names; without a number, the first that has a LID or a cable.
func port(v *fabricview.View, t target) (fabricview.End, *fabricview.Port, error) {
	n, err := find(v, t)
	if err != nil {
		if e, p := farPort(v, t); p != nil {
			return e, p, nil
		}
		return fabricview.End{}, nil, err
	}
	best := -1
	for i := range n.Ports {
		p := &n.Ports[i]
		if t.port == p.Number {
			return fabricview.End{Node: n.Name, Port: p.Number}, p, nil
		}
		if best < 0 && (p.LID != 0 || cabled(v, fabricview.End{Node: n.Name, Port: p.Number})) {
			best = i
		}
	}
	if t.port != 0 || len(n.Ports) == 0 {
		return fabricview.End{}, nil, fmt.Errorf("%q has no port %d: it has %d", n.Name, t.port, len(n.Ports))
	}
	best = max(best, 0)
	return fabricview.End{Node: n.Name, Port: n.Ports[best].Number}, &n.Ports[best], nil
}

func cabled(v *fabricview.View, e fabricview.End) bool {
	_, ok := other(v, e)
	return ok
}

// other returns the other end of the cable at a port.
func other(v *fabricview.View, e fabricview.End) (fabricview.End, bool) {
	for _, l := range v.Links {
		switch e {
		case l.A:
			return l.B, true
		case l.B:
			return l.A, true
		}
	}
	return fabricview.End{}, false
}

// at finds the port of a target in a current view.
func (c *Console) at(ctx context.Context, t target) (fabricview.End, *fabricview.Port, *fabricview.View, error) {
	v, err := c.fabric.View(ctx)
	if err != nil {
		return fabricview.End{}, nil, nil, err
	}
	e, p, err := port(v, t)
	return e, p, v, err
}
