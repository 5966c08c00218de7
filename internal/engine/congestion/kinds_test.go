// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"strings"
	"testing"
)

// Choices are parsed, and errors list the valid ones.
func TestParse(t *testing.T) {
	c, err := Parse("dcqcn,rpg_ai_rate=20,rpg_time_reset=300")
	if err != nil || c.Name != "dcqcn" || c.values.Get("rpg_ai_rate") != 20 || c.values.Get("rpg_time_reset") != 300 ||
		c.values.Get("rpg_hai_rate") != 400 {
		t.Errorf("%+v, %v", c, err)
	}
	if c.NotifyInterval() != 50*us {
		t.Errorf("a receiver notifies every %v, want 50 µs", c.NotifyInterval())
	}
	if c, err := Parse("dcqcn,min_time_between_cnps=4"); err != nil || c.NotifyInterval() != 4*us {
		t.Errorf("%v: a receiver notifies every %v, want 4 µs", err, c.NotifyInterval())
	}
	if c, err := Parse(""); err != nil || c.Name != "window" || c.NotifyInterval() != NotifyInterval {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"timely":                 "there are window, dcqcn, swift",
		"hpcc":                   "only ramjet sim has that",
		"window,x=1":             "has no parameters",
		"swift,x=1":              "it has base_target, hops",
		"swift,beta":             "has no value: write beta=0.8",
		"swift,beta=2":           "a number from 0.01 to 1",
		"swift,beta=NaN":         "a number from 0.01 to 1",
		"dcqcn,":                 "has no parameter \"\"",
		"dcqcn,rpg_ai_rate=fast": "(Mb/s)",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Every default is within its limits, and makes a controller that allows something.
func TestKinds(t *testing.T) {
	for _, k := range Kinds {
		c, err := ParseSimulated(k.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range k.Params {
			if v := c.values.values[i]; v < p.Min || v > p.Max || p.Text == "" {
				t.Errorf("%s: %+v", k.Name, p)
			}
		}
		for _, cfg := range []Config{{}, {Limit: 1 << 20, Packet: 4288, LineRate: 1e9}} {
			if v := c.Make(cfg).Allows(1); v.Window <= 0 || v.Burst <= 0 || v.Next > 1 {
				t.Errorf("%s at first: %+v", k.Name, v)
			}
		}
	}
}
