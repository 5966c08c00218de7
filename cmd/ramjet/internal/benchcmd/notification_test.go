// SPDX-License-Identifier: Apache-2.0

package benchcmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/notification"
)

// Charts have a line for each way, with all its points; without processor time there are fewer.
// Rows fit 80 columns, up to times of 100 ms.
func TestNotificationRows(t *testing.T) {
	busy := 1.0
	for us := 1e-3; us < 1e5; us *= 9.7 {
		var b strings.Builder
		d := time.Duration(us * 1e3)
		look := &notification.Look{P50: us * 1e3, P99: us * 1e3, Disturbed: true}
		r := notification.Result{Peers: 16384, Way: notification.Ways[0], Look: look, Scan: look, Busy: &busy}
		r.Delay.P50, r.Delay.P99 = d, d
		(&notificationTable{&b}).row(r)
		if n := len(strings.TrimSuffix(b.String(), "\n")); n > 80 || len(strings.Fields(b.String())) < 8 {
			t.Errorf("%d columns: %s", n, b.String())
		}
	}
}

func TestNotificationCharts(t *testing.T) {
	var results []notification.Result
	for _, n := range []int{1, 8} {
		for _, w := range notification.Ways {
			r := notification.Result{Peers: n, Way: w, Delay: notification.Delay{P50: 10_000, P99: 30_000}}
			if w != notification.Event {
				r.Look = &notification.Look{P50: 250}
			}
			if w == notification.Bytes {
				r.Scan = &notification.Look{P50: 20}
			}
			results = append(results, r)
		}
	}
	var got []string
	for _, c := range notificationCharts(results) {
		for _, l := range c.Lines {
			got = append(got, fmt.Sprint(l.Name, l.Points))
		}
	}
	want := []string{
		"polling a byte per peer[{1 10} {8 10}]", "immediate, polling[{1 10} {8 10}]",
		"immediate, sleeping[{1 10} {8 10}]", "[{1 30} {8 30}]", "[{1 30} {8 30}]", "[{1 30} {8 30}]",
		"polling a byte per peer[{1 0.25} {8 0.25}]", "of that, the bytes alone[{1 0.02} {8 0.02}]",
		"immediate, polling[{1 0.25} {8 0.25}]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
