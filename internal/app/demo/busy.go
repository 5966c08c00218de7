// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// limit is how long the demo may take. On an idle machine it takes seconds.
const limit = 2 * time.Minute

// tick is the unit of the kernel's counts of processor time (USER_HZ, the same on all of Linux's platforms).
const tick = 10 * time.Millisecond

// load is processor time that was used up to a moment: by all processes of the machine, and by the demo's two.
type load struct {
	at       time.Time
	all, own time.Duration
	known    bool
}

// loadOf reads the load; where the system does not tell, it is not known.
func loadOf(pids ...int) load {
	l := load{at: time.Now()}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l
	}
	if l.all, l.known = usedByAll(b); !l.known {
		return l
	}
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return load{}
		}
		l.own += usedByProcess(b)
	}
	return l
}

// usedByAll sums up the time that processes have used, and a hypervisor for other guests, in the first line of
// /proc/stat: user, nice, system and steal. Idle time and the time of interrupts do not count.
func usedByAll(stat []byte) (sum time.Duration, ok bool) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	f := strings.Fields(string(line))
	if len(f) < 9 || f[0] != "cpu" {
		return 0, false
	}
	for _, i := range []int{1, 2, 3, 8} {
		sum += ticks(f[i])
	}
	return sum, true
}

// usedByProcess returns the processor time of a process, by its /proc/PID/stat: the fields 14 and 15. Its name, the
// second, may have blanks.
func usedByProcess(stat []byte) time.Duration {
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	return ticks(f[11]) + ticks(f[12])
}

func ticks(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * tick
}

// others returns how many processors other processes have used on average since before, if that is known.
func (l load) others(before load) (processors float64, known bool) {
	took := l.at.Sub(before.at)
	if !l.known || !before.known || took <= 0 {
		return 0, false
	}
	return max(0, float64((l.all-before.all)-(l.own-before.own))/float64(took)), true
}

// tooBusy reports whether others have used so much that the demo's two processes, which poll, had less than one
// processor each, or on a machine with a single processor less than all of it.
func tooBusy(others float64) bool {
	const tolerated = 0.25
	return others > float64(max(runtime.NumCPU()-2, 0))+tolerated
}
