// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
)

//go:noinline
func outer(n int) Stack {
	if n > 0 {
		s := outer(n - 1)
		return s
	}
	return inlined()
}

func inlined() Stack { return at("").Stack }

// TestStacks checks that stacks are told apart by their callers, and that the same one is found again.
func TestStacks(t *testing.T) {
	once := func(depth int) (a, b Stack) {
		for i := range 2 {
			s := outer(depth)
			if i == 0 {
				a = s
			}
			b = s
		}
		return a, b
	}
	a, b := once(1)
	if a != b {
		t.Error("the same stack was kept twice")
	}
	if c, _ := once(2); c == a || len(c.addresses()) != len(a.addresses())+1 {
		t.Errorf("a deeper stack is\n%sand the other\n%s", c, a)
	}
	if deep := outer(100); len(deep.addresses()) != maxFrames {
		t.Errorf("%d callers of a deep stack", len(deep.addresses()))
	}
	here := outer(0)
	if allocs := testing.AllocsPerRun(100, func() { here = outer(0) }); allocs > 0 {
		t.Errorf("%v allocations for a stack", allocs)
	}
	if len(here.addresses()) < 4 || strings.Contains(here.String(), "check.inlined") {
		t.Errorf("the stack has %d callers, and is described as\n%s", len(here.addresses()), here)
	}
	if s := StackOf(make([]uintptr, 100)); len(s.addresses()) != maxFrames {
		t.Errorf("%d addresses", len(s.addresses()))
	}
	if s := (Stack{}).String(); s != "" {
		t.Errorf("no stack is %q", s)
	}
}

// TestReturnAddresses checks that the whole stack of a goroutine is followed, and no further.
func TestReturnAddresses(t *testing.T) {
	counts := make(chan int)
	go func() {
		pcs := make([]uintptr, 1000)
		counts <- returnAddresses(pcs)
	}()
	if n := <-counts; n < 1 || n > 5 {
		t.Errorf("%d return addresses of a goroutine's first function", n)
	}
	if n := returnAddresses(nil); n != 0 {
		t.Errorf("%d of none", n)
	}
}
