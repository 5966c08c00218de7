// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"slices"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// Figures returns all figures; each of their measurements takes d.
func Figures(d time.Duration) []Figure {
	roce := roceFigures(d)
	for i := range roce {
		roce[i].Device = "roce:"
	}
	return append(roce, iwarpFigures(d)...)
}

// Permitted returns the figures that need no congestion control that permitted refuses, and the
// reasons. Figures of devices with such a control are left out, and so are columns of such sockets.
// Each reason is listed once.
func Permitted(figures []Figure, permitted func(congestion string) error) (rest []Figure, reasons []error) {
	answers := map[string]error{"": nil}
	ok := func(congestion string) bool {
		err, asked := answers[congestion]
		if !asked {
			err = permitted(congestion)
			answers[congestion] = err
			if err != nil {
				reasons = append(reasons, err)
			}
		}
		return err == nil
	}
	for _, f := range figures {
		if !ok(congestionOf(f.Device)) {
			continue
		}
		f.Against = slices.DeleteFunc(slices.Clone(f.Against), func(r Reference) bool {
			return r.Baseline != nil && !ok(r.Baseline.Congestion)
		})
		rest = append(rest, f)
	}
	return rest, reasons
}

// congestionOf returns the congestion control in the name of a device.
func congestionOf(device string) string {
	_, options, _ := strings.Cut(device, "?")
	for option := range strings.SplitSeq(options, "&") {
		if value, ok := strings.CutPrefix(option, "congestion="); ok {
			return value
		}
	}
	return ""
}

// sockets is the figure of bare sockets, with the system's congestion control if cc is empty.
func sockets(d time.Duration, k baseline.Kind, size int, cc string) *baseline.Config {
	return &baseline.Config{Kind: k, Size: size, Duration: d, Congestion: cc}
}
