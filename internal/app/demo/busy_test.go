// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"runtime"
	"testing"
	"time"
)

// The time of other processes is that of all processes, less the demo's.
func TestLoad(t *testing.T) {
	all, known := usedByAll([]byte("cpu  100 20 30 5000 7 8 9 40 0 0\ncpu0 1 2 3\n"))
	if want := 190 * tick; all != want || !known {
		t.Errorf("%v, %v, want %v", all, known, want)
	}
	if _, known := usedByAll([]byte("cpu 1 2\n")); known {
		t.Error("a line that is too short is read")
	}
	if own, want := usedByProcess([]byte("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 300 50 0 0 20")), 350*tick; own != want {
		t.Errorf("%v, want %v", own, want)
	}
	if own := usedByProcess(nil); own != 0 {
		t.Errorf("%v of nothing", own)
	}
	now := time.Now()
	before := load{now, 10 * time.Second, time.Second, true}
	after := load{now.Add(2 * time.Second), 16 * time.Second, 4 * time.Second, true}
	if n, known := after.others(before); n != 1.5 || !known {
		t.Errorf("%v processors, want 1.5", n)
	}
	if n, known := after.others(load{}); known {
		t.Errorf("%v processors of what is not known", n)
	}
	if free := float64(max(runtime.NumCPU()-2, 0)); tooBusy(free) || !tooBusy(free+1) {
		t.Error("busy is more than what the two processes leave")
	}
}
