// SPDX-License-Identifier: Apache-2.0

package democmd

import (
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/demo"
)

// On a busy machine the text says so once, and has the best figures.
func TestDemoBusy(t *testing.T) {
	others := 0.1
	r := &demo.Report{Speed: []demo.Speed{{Over: "roce", RoundTrip: 80 * time.Microsecond,
		Shortest: 8 * time.Microsecond, BytesPerSecond: 1e9, BestPerSecond: 2e9}}, Others: &others}
	if s := speedText(r, false); strings.Contains(s, "busy") || !strings.Contains(s, "80.0 µs") ||
		!strings.Contains(s, "1.00 GB/s") {
		t.Errorf("an idle machine:\n%s", s)
	}
	r.Busy, others = true, 1.75
	if s := speedText(r, false); strings.Count(s, "busy") != 1 || !strings.Contains(s, "used 1.8 of its ") ||
		!strings.Contains(s, "at most 8.00 µs") ||
		!strings.Contains(s, "at least 2.00 GB/s") || strings.Contains(s, "80.0") || strings.Contains(s, "seems") {
		t.Errorf("a busy machine:\n%s", s)
	}
	r.Speed = append(r.Speed, demo.Speed{Over: demo.SharedMemory, Shortest: 200 * time.Microsecond},
		demo.Speed{Over: demo.TCP, Shortest: 20 * time.Microsecond})
	if s := speedText(r, false); !strings.Contains(s, "TCP only\n   seems to be faster") {
		t.Errorf("a machine so busy that TCP is before shared memory:\n%s", s)
	}
}
