// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxFrames is how many callers are known. Some of them are Ramjet's own, which a report does not show.
	maxFrames = 16
	// maxAddresses is how many return addresses tell stacks apart: enough for so many callers, and the checker's
	// functions.
	maxAddresses = 24
)

// Stack is where a program was. Those that are alike share their return addresses.
type Stack struct {
	at        *trace // nil: it is not known
	described string // of another process, which has described it
}

// trace has the callers of a stack, the innermost first.
type trace struct {
	pcs [maxFrames]uintptr
	n   int

	key [maxAddresses]uintptr // what tells it apart from others
	k   int
}

// traces are the stacks that were seen last, by a hash of their keys: programs post from the same places again and
// again.
var traces [1024]atomic.Pointer[trace]

// lookup returns the trace with a key, and where such a trace is kept; nil: it is not there.
func lookup(key []uintptr) (*trace, *atomic.Pointer[trace]) {
	var h uint64
	for _, pc := range key {
		h = bits.RotateLeft64(h^uint64(pc), 29) * 0x9e3779b97f4a7c15
	}
	slot := &traces[h>>32%uint64(len(traces))]
	if t := slot.Load(); t != nil && slices.Equal(t.key[:t.k], key) {
		return t, slot
	}
	return nil, slot
}

// Stacks captures and describes stacks. Those of C programs are C's.
type Stacks struct {
	Capture  func(pcs []uintptr) int            // returns how many it has filled in
	Describe func(pcs []uintptr) (text []Frame) // may leave frames out that are not the program's
	Module   func(pcs []uintptr) string         // the file of the program's innermost function
}

// Frame is a function of the program, and the line in it.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"` // empty: not known
	Line     int    `json:"line,omitempty"` // 0: not known
}

var stacks Stacks // without functions: Go's frames

// UseStacks has stacks captured in another way than Go's. It is for the libraries of C programs, before any device is
// watched.
func UseStacks(s Stacks) { stacks = s }

var captures = sync.Pool{New: func() any { return new([maxFrames]uintptr) }}

func here() Stack {
	if stacks.Capture == nil {
		return goStack()
	}
	pcs := captures.Get().(*[maxFrames]uintptr)
	defer captures.Put(pcs)
	return StackOf(pcs[:stacks.Capture(pcs[:])])
}

// goStack finds the stack by its return addresses, which takes far less time than finding the callers. The frames of
// this package and of package verbs are left to describeGo, as looking them up takes longer still.
func goStack() Stack {
	var key [maxAddresses]uintptr
	n := returnAddresses(key[:])
	t, slot := lookup(key[:n])
	if t == nil {
		t = &trace{key: key, k: n}
		t.n = runtime.Callers(4, t.pcs[:])
		slot.Store(t)
	}
	return Stack{at: t}
}

// StackOf returns a stack of return addresses, of which it keeps the innermost.
func StackOf(pcs []uintptr) Stack {
	pcs = pcs[:min(len(pcs), maxFrames)]
	t, slot := lookup(pcs)
	if t == nil {
		t = &trace{}
		t.n, t.k = copy(t.pcs[:], pcs), copy(t.key[:], pcs)
		slot.Store(t)
	}
	return Stack{at: t}
}

// addresses returns the return addresses of the callers.
func (s Stack) addresses() []uintptr {
	if s.at == nil {
		return nil
	}
	return s.at.pcs[:s.at.n]
}

const path = "github.com/ramjet-rdma/ramjet/"

func ours(function string) bool {
	rest, ok := strings.CutPrefix(function, path)
	return ok && (strings.HasPrefix(rest, "internal/core/check.") || strings.HasPrefix(rest, "verbs."))
}

func describeGo(pcs []uintptr) (out []Frame) {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "", f.Function == "runtime.main", f.Function == "runtime.goexit", ours(f.Function):
		default:
			out = append(out, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			return out
		}
	}
}

// module returns the file of a C program, or that of one of its libraries, which has the innermost function.
func (s Stack) module() string { return stacks.Module(s.addresses()) }

// frames returns the functions of a stack, the innermost first.
func (s Stack) frames() []Frame {
	if stacks.Describe != nil {
		return stacks.Describe(s.addresses())
	}
	return describeGo(s.addresses())
}

// String returns a line for each function, and one below it for its place.
func (s Stack) String() string {
	if s.described != "" {
		return s.described
	}
	return describe(s.frames())
}

func describe(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
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
