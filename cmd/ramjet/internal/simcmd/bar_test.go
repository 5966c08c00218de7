// SPDX-License-Identifier: Apache-2.0

package simcmd

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/internal/app/sim/scenario"
)

func world(t *testing.T, text string) *sim.Sim {
	t.Helper()
	f, err := scenario.Read(strings.NewReader(text), "s.yaml", ".")
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The bar says how far a simulation is, at which speed, and how long the rest takes. The test's clock goes on by a
// second from one look to the next, so each bar stands for as many events.
func TestBar(t *testing.T) {
	const step = "20.0k events/s"
	line := regexp.MustCompile(`^[0-9.]+ [µm]?s [█░]+ +(\d+)%, ` + step + `, \d+ s left$`)
	for name, text := range map[string]string{
		"by bytes":    "topology: {kind: star, hosts: 3}\ntraffic: [{kind: incast, senders: 2, size: 20MB}]",
		"by the time": "duration: 3ms\ntopology: {kind: star, hosts: 3}\ntraffic: [{kind: incast, senders: 2, size: 1GB}]",
	} {
		var terminal bytes.Buffer
		var now time.Time
		clock := func() time.Time { now = now.Add(time.Second); return now }
		s := world(t, text)
		if err := simulate(t.Context(), s, cli.NewBarLineOf(&terminal, func() int { return 100 }), clock); err != nil {
			t.Fatal(err)
		}
		if s.Progress() != 1 {
			t.Errorf("%s: %v of it is over in the end", name, s.Progress())
		}
		bars := strings.Split(terminal.String(), "\r"+cli.EraseBelow)
		last := len(bars) - 1
		if bars[last] != "" || last != int((s.Events-1)/simStep) || last < 5 {
			t.Fatalf("%s: %d bars for %d events; the last is %q", name, last, s.Events, bars[last])
		}
		before := ""
		for i, bar := range bars[:last] {
			bar = strings.TrimPrefix(bar, cli.EraseBelow)
			m := line.FindStringSubmatch(bar)
			if m == nil {
				t.Fatalf("%s: bar %d is %q, want %v", name, i+1, bar, line)
			}
			if percent := pad(m[1]); percent < before {
				t.Errorf("%s: %s%% after %s%%", name, percent, before)
			} else {
				before = percent
			}
		}
		// The middle of all bars is about the middle of the simulation.
		m := line.FindStringSubmatch(strings.TrimPrefix(bars[last/2], cli.EraseBelow))
		if percent := pad(m[1]); percent < " 30" || percent > " 70" {
			t.Errorf("%s: bar %d of %d says %s%%", name, last/2+1, last, percent)
		}
	}
}

// pad makes percentages compare as texts.
func pad(percent string) string { return strings.Repeat(" ", 3-len(percent)) + percent }

// In the first second it is not known how long the rest takes.
func TestBarBegins(t *testing.T) {
	s := world(t, "topology: {kind: star, hosts: 3}\ntraffic: [{kind: incast, senders: 2, size: 20MB}]")
	if _, err := s.Run(1000); err != nil {
		t.Fatal(err)
	}
	if bar := simBar(100, s, 500*time.Millisecond); !strings.HasSuffix(bar, "%, 2000 events/s") {
		t.Errorf("%q", bar)
	}
}
