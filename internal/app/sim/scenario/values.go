// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
)

// value is a value that has a text of its own in a file.
type value interface {
	parse(text string) error
	String() string
}

// Rate is bits per second.
type Rate float64

func (r Rate) String() string { return withUnit(float64(r), "b/s", rateUnits) }

func (r *Rate) parse(text string) error {
	digits, ok := cutAny(text, "b/s", "bps", "bit/s")
	v, err := scaled(digits, rateUnits)
	if !ok || err != nil {
		return fmt.Errorf("%q is no rate: expected one such as 100Gb/s", text)
	}
	*r = Rate(v)
	return nil
}

// Size is bytes.
type Size int64

func (s Size) String() string { return withUnit(float64(s), "B", sizeUnits) }

func (s *Size) parse(text string) error {
	digits, _ := cutAny(text, "B")
	v, err := scaled(digits, sizeUnits)
	if err != nil || v > 1<<50 {
		return fmt.Errorf("%q is no size: expected bytes, as 64KB or 1MiB", text)
	}
	*s = Size(v)
	return nil
}

// Duration is a time.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

func (d *Duration) parse(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 || v > 1000*time.Second {
		return fmt.Errorf("%q is no time: expected 0s to 1000s, as 10ms or 1.5us", text)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) time() sim.Time { return sim.FromDuration(time.Duration(d)) }

func duration(t sim.Time) Duration { return Duration(t.Duration()) }

// Node is a host or a switch.
type Node struct {
	isSwitch bool
	num      int
}

func (n Node) String() string {
	if n.isSwitch {
		return fmt.Sprint("switch ", n.num)
	}
	return fmt.Sprint("host ", n.num)
}

func (n *Node) parse(text string) error {
	kind, digits, _ := strings.Cut(text, " ")
	num, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 31)
	if err != nil || kind != "host" && kind != "switch" {
		return fmt.Errorf("%q is no node: expected one such as host 3 or switch 1", text)
	}
	n.isSwitch, n.num = kind == "switch", int(num)
	return nil
}

// Word is one of some words, which its field's tag lists.
type Word string

// Control is a congestion control.
type Control struct {
	text   string
	choice *congestion.Choice
}

func (c Control) String() string { return c.text }

func (c *Control) parse(text string) (err error) {
	c.text = text
	c.choice, err = congestion.ParseSimulated(text)
	return err
}

// Sizes is a distribution of sizes, or none.
type Sizes struct{ *sim.Sizes }

func (s Sizes) String() string {
	if s.Sizes == nil {
		return ""
	}
	return s.Name
}

func (s *Sizes) parse(text string) error {
	if text == "" {
		s.Sizes = nil
		return nil
	}
	var names []string
	for _, d := range sim.Distributions {
		if d.Name == text {
			s.Sizes = d
			return nil
		}
		names = append(names, d.Name)
	}
	return fmt.Errorf("no distribution %q: expected %s", text, strings.Join(names, ", "))
}

// unit is a prefix of a unit.
type unit struct {
	prefix string
	scale  float64
}

// Larger ones come first.
var (
	rateUnits = []unit{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}
	sizeUnits = []unit{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3},
		{"k", 1e3}, {"", 1}}
)

// cutAny removes the first of the suffixes that a text has.
func cutAny(text string, suffixes ...string) (string, bool) {
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(text, s); ok {
			return rest, true
		}
	}
	return text, false
}

// scaled returns a number with a prefix.
func scaled(text string, units []unit) (float64, error) {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.prefix); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
			if err == nil && !(v >= 0 && !math.IsInf(v, 0)) {
				err = strconv.ErrRange
			}
			return v * u.scale, err
		}
	}
	return 0, strconv.ErrSyntax
}

// withUnit writes a number with the largest prefix of which it is a multiple.
func withUnit(v float64, name string, units []unit) string {
	for _, u := range units {
		if n := v / u.scale; v != 0 && n == math.Trunc(n) {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.prefix + name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + name
}
