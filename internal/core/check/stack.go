// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"runtime"
	"strings"
)

// maxFrames is how many callers are known. Some of them are Ramjet's own, which a report does not show.
const maxFrames = 16

// Stack is where a program was: return addresses, the innermost first.
type Stack struct {
	pcs [maxFrames]uintptr
	n   int
}

// Stacks captures and describes stacks. Those of C programs are C's.
type Stacks struct {
	Capture  func(pcs []uintptr) int            // returns how many it has filled in
	Describe func(pcs []uintptr) (text []Frame) // may leave frames out that are not the program's
}

// Frame is a function of the program, and the line in it.
type Frame struct {
	Function string
	File     string // empty: not known
	Line     int    // 0: not known
}

var stacks = Stacks{Capture: captureGo, Describe: describeGo}

// UseStacks has stacks captured in another way than Go's. It is for the libraries of C programs, before any device is
// watched.
func UseStacks(s Stacks) { stacks = s }

func here() (s Stack) {
	s.n = stacks.Capture(s.pcs[:])
	return s
}

// captureGo leaves the frames of this package and of package verbs to describeGo, as looking them up takes longer than
// finding them.
func captureGo(pcs []uintptr) int { return runtime.Callers(4, pcs) }

const path = "github.com/ramjet-rdma/ramjet/"

func ours(function string) bool {
	rest, ok := strings.CutPrefix(function, path)
	return ok && (strings.HasPrefix(rest, "internal/core/check.") || strings.HasPrefix(rest, "verbs."))
}

func describeGo(pcs []uintptr) (out []Frame) {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function != "" && !ours(f.Function) && f.Function != "runtime.goexit" {
			out = append(out, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			return out
		}
	}
}

// String returns a line for each function, and one below it for its place.
func (s *Stack) String() string {
	var b strings.Builder
	for _, f := range stacks.Describe(s.pcs[:s.n]) {
		fmt.Fprintf(&b, "    %s()\n", f.Function)
		switch {
		case f.Line != 0:
			fmt.Fprintf(&b, "        %s:%d\n", f.File, f.Line)
		case f.File != "":
			fmt.Fprintf(&b, "        %s\n", f.File)
		}
	}
	return b.String()
}
