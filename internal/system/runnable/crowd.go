// SPDX-License-Identifier: Apache-2.0

package runnable

import (
	"bytes"
	"strconv"
	"strings"
)

// crowd decides from samples of how many threads want to run. Their number leaps, so it takes a mean.
type crowd struct {
	mean    int // of the samples, the last counting for a meanOf-th; times scale
	crowded bool
}

const (
	scale  = 64
	meanOf = 8
	// It is crowded from crowdFrom threads a processor on, and until there is one for each. Two programs that
	// poll, one on each processor, and the threads of their runtimes are no crowd.
	crowdFrom = 2
)

// take takes a sample, and reports whether it is crowded.
func (c *crowd) take(threads, processors int) bool {
	c.mean += (threads*scale - c.mean) / meanOf
	switch {
	case c.mean > crowdFrom*processors*scale:
		c.crowded = true
	case c.mean <= processors*scale+scale/2:
		c.crowded = false
	}
	return c.crowded
}

// maxThreads and maxDigits bound the numbers taken from a file.
const (
	maxThreads = 1 << 20
	maxDigits  = 10
)

// parseLoad returns how many threads want to run, from /proc/loadavg: "0.20 0.18 0.12 3/80 11206" (proc(5)). It
// allocates nothing, as programs that poll call it.
func parseLoad(text []byte) (threads int, ok bool) {
	for range 3 {
		blank := bytes.IndexByte(text, ' ')
		if blank <= 0 {
			return 0, false
		}
		text = text[blank+1:]
	}
	slash := bytes.IndexByte(text, '/')
	if slash <= 0 || slash > maxDigits {
		return 0, false
	}
	for _, c := range text[:slash] {
		if c < '0' || c > '9' {
			return 0, false
		}
		threads = min(10*threads+int(c-'0'), maxThreads)
	}
	return threads, true
}

// parseProcessors returns how many processors there are, from a list as in /sys: "0-3,8" (cpuset(7)).
func parseProcessors(text string) (n int, ok bool) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || b < a {
			return 0, false
		}
		n += int(b-a) + 1
	}
	return n, true
}
