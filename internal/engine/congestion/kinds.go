// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// Kind is a kind of controller: a row of [Kinds].
type Kind struct {
	Name   string
	Text   string // a description, for people
	PerQP  bool   // each queue pair has its own, below the window that it shares with others to the same host
	ECT    bool   // it hears of marks: packets permit them (RFC 3168)
	Prompt bool   // it measures round trips: acknowledgements do not wait for the program's answer
	// Telemetry says that it is a [Telemeter]: each packet requests an acknowledgement, which brings the records of
	// switches. Only simulations have that.
	Telemetry bool
	Params    []Param
	New       func(Config, *Values) Controller
}

// Param is a parameter of a kind.
type Param struct {
	Name     string
	Unit     string
	Text     string // a description, for people
	Default  float64
	Min, Max float64
}

// Kinds has all kinds. The first is the default.
var Kinds = []*Kind{
	{
		Name: "window", Text: "a window for socket buffers, shared by all queue pairs to one host",
		New: func(c Config, _ *Values) Controller { return NewWindow(c.Limit, c.LineRate) },
	},
	{
		Name:  "dcqcn",
		Text:  "DCQCN: a rate for each queue pair, by marks of switches (ECN) and congestion notifications (CNP)",
		PerQP: true, ECT: true, Params: dcqcnParams, New: newDCQCN,
	},
	{
		Name: "swift", Text: "after Swift: a window for each queue pair, by the round trip, paced below one packet",
		PerQP: true, Prompt: true, Params: swiftParams, New: newSwift,
	},
	{
		Name: "hpcc", Text: "HPCC: a window for each queue pair, by what switches say of their links (INT)",
		PerQP: true, Prompt: true, Telemetry: true, Params: hpccParams, New: newHPCC,
	},
}

// Values are the values of a kind's parameters.
type Values struct {
	params []Param
	values []float64
}

// Get returns the value of a parameter of the kind.
func (v *Values) Get(name string) float64 {
	i := slices.IndexFunc(v.params, func(p Param) bool { return p.Name == name })
	return v.values[i]
}

// Choice is a kind of controller with its parameters.
type Choice struct {
	*Kind
	values Values
}

// notifyParam is the parameter of how often a receiver notifies, by the name of mlx5's file (roce_np).
const notifyParam = "min_time_between_cnps"

// NotifyInterval returns the shortest time between two notifications that a queue pair sends.
func (c *Choice) NotifyInterval() clock.Time {
	if i := slices.IndexFunc(c.Params, func(p Param) bool { return p.Name == notifyParam }); i >= 0 {
		return microseconds(c.values.values[i])
	}
	return NotifyInterval
}

// Default returns the default choice.
func Default() *Choice { return choose(Kinds[0]) }

func choose(k *Kind) *Choice {
	c := &Choice{k, Values{params: k.Params}}
	for _, p := range k.Params {
		c.values.values = append(c.values.values, p.Default)
	}
	return c
}

// Make makes a controller.
func (c *Choice) Make(cfg Config) Controller { return c.New(cfg, &c.values) }

// Parse parses a choice: the name of a kind, and parameters that differ from their defaults, such as
// "dcqcn,rpg_ai_rate=20,rpg_time_reset=300". An empty text is the default. Kinds that need telemetry are no choice.
func Parse(text string) (*Choice, error) { return parse(text, false) }

// ParseSimulated is Parse for simulations, whose switches have telemetry.
func ParseSimulated(text string) (*Choice, error) { return parse(text, true) }

func parse(text string, telemetry bool) (*Choice, error) {
	if text == "" {
		return Default(), nil
	}
	name, rest, more := strings.Cut(text, ",")
	i := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Name == name })
	if i < 0 {
		var names []string
		for _, k := range Kinds {
			if !k.Telemetry || telemetry {
				names = append(names, k.Name)
			}
		}
		return nil, fmt.Errorf("no congestion control %q: there are %s", name, strings.Join(names, ", "))
	}
	if Kinds[i].Telemetry && !telemetry {
		return nil, fmt.Errorf(
			"congestion control %s needs what switches write into packets (INT): only ramjet sim has that", name)
	}
	c := choose(Kinds[i])
	for more {
		var setting string
		setting, rest, more = strings.Cut(rest, ",")
		if err := c.set(setting); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// set sets a parameter, as "name=value".
func (c *Choice) set(setting string) error {
	name, value, ok := strings.Cut(setting, "=")
	i := slices.IndexFunc(c.Params, func(p Param) bool { return p.Name == name })
	switch {
	case i < 0 && len(c.Params) == 0:
		return fmt.Errorf("congestion control %s has no parameters, and no %q", c.Name, name)
	case i < 0:
		var names []string
		for _, p := range c.Params {
			names = append(names, p.Name)
		}
		return fmt.Errorf("congestion control %s has no parameter %q: it has %s", c.Name, name,
			strings.Join(names, ", "))
	case !ok:
		return fmt.Errorf("parameter %s of congestion control %s has no value: write %s=%v", name, c.Name, name,
			c.Params[i].Default)
	}
	p := &c.Params[i]
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !(v >= p.Min && v <= p.Max) {
		return fmt.Errorf("%s=%s: parameter %s of congestion control %s is a number from %v to %v (%s)", name, value,
			name, c.Name, p.Min, p.Max, p.Unit)
	}
	c.values.values[i] = v
	return nil
}
