// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/internal/system/checkboard"
)

// maxReports is how many findings of a rule are reported; the others are counted.
const maxReports = 10

// Checker reports the findings of a process.
type Checker struct {
	opts Options
	out  io.Writer

	mu      sync.Mutex // of the fields below; held while reporting
	seen    map[string]bool
	found   map[Rule]int
	devices []weak.Pointer[Device]
	handles *Handles       // of a C program; nil: of none
	records bool           // it is the checker that the environment asks for
	record  *record        // of objects that a Go program would leave; nil: none
	numbers map[string]int // of objects, by kind

	copied  copied   // has a lock of its own
	history *history // has a lock of its own
}

// New makes a checker that reports to w, with one write each; several goroutines do so in turn.
func New(w io.Writer, o *Options) *Checker {
	return &Checker{opts: *o, out: w, seen: map[string]bool{}, found: map[Rule]int{}, numbers: map[string]int{},
		history: newHistory()}
}

var process struct {
	sync.Once
	checker *Checker
	err     error
}

// Process returns the checker that the environment asks for, or nil. Programs with more rights than their user have
// none.
func Process() (*Checker, error) {
	process.Do(func() { process.checker, process.err = fromEnvironment() })
	return process.checker, process.err
}

func fromEnvironment() (*Checker, error) {
	text := environ.Get(Variable)
	if text == "" || text == "0" {
		return nil, nil
	}
	o, err := ParseOptions(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	out := os.Stderr
	if o.Log != "" {
		if out, err = calllog.OpenFile(o.Log); err != nil {
			return nil, fmt.Errorf("%s: %w", Variable, err)
		}
	}
	c := New(out, o)
	c.records = true
	c.Share()
	return c, nil
}

// Share has the checkers of this user's processes tell each other when operations were posted, before devices are
// watched. Where that is not possible the checker sees less. After end others see nothing more of this process.
func (c *Checker) Share() (end func()) {
	b, err := checkboard.Open()
	if err != nil {
		return func() {}
	}
	c.history.board = b
	return b.Close
}

// number returns the number of a new object among those of its kind, from 1.
func (c *Checker) number(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.numbers[kind]++
	return c.numbers[kind]
}

// NameOf returns the name of an object of package verbs; empty: it is not known.
func (c *Checker) NameOf(v any) string {
	d := c.deviceOf(v)
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nameOf(v)
}

// deviceOf returns the device that has an object; nil: it is not known.
func (c *Checker) deviceOf(v any) *Device {
	c.mu.Lock()
	devices := c.devices
	c.mu.Unlock()
	for _, p := range devices {
		d := p.Value()
		if d == nil {
			continue
		}
		d.mu.Lock()
		known := d.known.all[v] != nil
		d.mu.Unlock()
		if known {
			return d
		}
	}
	return nil
}

// Disable ends the checks of a rule: what it looks for has other causes from now on.
func (c *Checker) Disable(r Rule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	off := map[Rule]bool{r: true}
	maps.Copy(off, c.opts.Off)
	c.opts.Off = off
}

// on reports whether a rule is checked.
func (c *Checker) on(r Rule) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.opts.Off[r]
}

// Report reports a finding, unless its rule is off or the same has been reported before.
func (c *Checker) Report(f *Finding) { c.report(f, nil) }

// report is Report, with the packets of a queue pair; nil: it concerns none.
func (c *Checker) report(f *Finding, packets func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opts.Off[f.Rule] {
		return
	}
	c.record.found()
	key := f.key()
	if c.seen[key] {
		return
	}
	if c.found[f.Rule]++; c.found[f.Rule] > maxReports {
		return
	}
	c.seen[key] = true
	ladder := ""
	if packets != nil {
		ladder = packets()
	}
	io.WriteString(c.out, f.text(ladder))
}

// Findings returns how many findings there were, by rule; the same at the same place counts once.
func (c *Checker) Findings() map[Rule]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[Rule]int{}
	for r, n := range c.found {
		out[r] = n
	}
	return out
}

// Exit is called when the program ends. It reports what is left, and returns the status for a program that has not
// failed: 0 without findings.
func (c *Checker) Exit() int {
	c.mu.Lock()
	devices, handles := c.devices, c.handles
	c.mu.Unlock()
	if handles != nil {
		handles.exit()
	}
	for _, p := range devices {
		if d := p.Value(); d != nil {
			d.exit()
		}
	}
	c.history.settle()
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for r, n := range c.found {
		total += n
		if n > maxReports {
			fmt.Fprintf(c.out, "ramjet check: %s: %d more were not reported\n", r, n-maxReports)
		}
	}
	if total == 0 {
		return 0
	}
	return c.opts.ExitCode
}
