// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
)

// goroutine is one of a dump.
type goroutine struct {
	id, state string
	durable   bool // it waits in a way that lets virtual time pass
	runs      bool // it goes on by itself
	frames    []frame
}

// frame is a call on a stack.
type frame struct{ fn, place string }

// ownDir is the directory of this module.
var ownDir = func() string {
	_, file, _, _ := runtime.Caller(0)
	return path.Dir(path.Dir(file))
}()

// bubbleOf returns the text that marks goroutines of the caller's bubble in a dump.
func bubbleOf() string {
	b := make([]byte, 256)
	head, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "\n")
	_, bubble, ok := strings.Cut(head, "synctest bubble ")
	if !ok {
		return ""
	}
	return "synctest bubble " + strings.TrimRight(bubble, "]:")
}

// runs reports whether a goroutine in a state goes on by itself: it runs, or waits for a processor, for the system, or
// for Go's runtime. However long that takes, its world does not stand still.
func runs(state string) bool {
	switch state {
	case "running", "runnable", "syscall", "preempted", "copystack", "wait for GC cycle":
		return true
	}
	return strings.HasPrefix(state, "GC ") || strings.HasPrefix(state, "garbage collection")
}

// goroutines returns the goroutines of a bubble.
func goroutines(bubble string) (list []goroutine) {
	b := make([]byte, 1<<20)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) || len(b) >= 1<<26 {
			b = b[:n]
			break
		}
		b = make([]byte, 4*len(b))
	}
	for text := range strings.SplitSeq(string(b), "\n\n") {
		head, stack, _ := strings.Cut(text, "\n")
		id, states, ok := strings.Cut(strings.TrimSuffix(head, "]:"), " [")
		if !ok || !strings.HasSuffix(states, bubble) {
			continue
		}
		g := goroutine{id: id, durable: strings.Contains(states, "(durable)")}
		g.state, _, _ = strings.Cut(states, ",")
		g.state = strings.TrimSuffix(g.state, " (durable)")
		g.runs = runs(g.state)
		lines := strings.Split(stack, "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			if strings.HasPrefix(lines[i], "created by ") {
				break
			}
			place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
			fn := lines[i]
			if p := strings.LastIndex(fn, "("); p > 0 {
				fn = fn[:p]
			}
			g.frames = append(g.frames, frame{fn, place})
		}
		list = append(list, g)
	}
	return list
}

// standardDir is the folder of the standard library's sources, as stacks name them.
var standardDir = func() string {
	f := runtime.FuncForPC(reflect.ValueOf(strings.Cut).Pointer())
	file, _ := f.FileLine(f.Entry())
	return path.Dir(path.Dir(file))
}()

// standard reports whether a frame is of the standard library.
func (f frame) standard() bool {
	first, _, _ := strings.Cut(f.fn, "/")
	pkg, _, _ := strings.Cut(first, ".")
	return strings.HasPrefix(f.place, standardDir+"/") ||
		strings.Contains(f.fn, "/") && !strings.Contains(first, ".") ||
		pkg == "runtime" || pkg == "sync" || pkg == "time" || pkg == "testing"
}

// ours reports whether a frame is of this module, and not of a test or an example.
func (f frame) ours() bool {
	file := f.place[:max(0, strings.LastIndex(f.place, ":"))]
	return strings.HasPrefix(file, ownDir+"/") && !strings.HasSuffix(file, "_test.go") &&
		!strings.HasPrefix(file, ownDir+"/examples/")
}

// where returns the place in the user's program at which a goroutine is, and whether there is one.
func (g *goroutine) where() (text string, users bool) {
	at := ""
	for _, f := range g.frames {
		if f.standard() {
			continue
		}
		if at == "" {
			at = fmt.Sprintf("%s (%s)", f.place, path.Base(f.fn))
		}
		if !f.ours() {
			if here := fmt.Sprintf("%s (%s)", f.place, path.Base(f.fn)); here != at {
				return fmt.Sprintf("%s, called from %s", at, here), true
			}
			return at, true
		}
	}
	return at, false
}

func (g *goroutine) String() string {
	at, _ := g.where()
	return fmt.Sprintf("    %s [%s] at %s\n", g.id, g.state, at)
}

// waiting describes the goroutines of a bubble that are in the user's program.
func waiting(bubble string) string {
	var b strings.Builder
	for _, g := range goroutines(bubble) {
		if _, users := g.where(); users && !g.runs {
			b.WriteString(g.String())
		}
	}
	return b.String()
}
