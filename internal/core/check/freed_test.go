// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestFreedOfCache has a library register memory, which it or the program gives back to the heap, or one after the
// other.
func TestFreedOfCache(t *testing.T) {
	const library, program = "library", "program"
	for name, c := range map[string]struct {
		freed []string // who frees it
		how   string
		rules []string
	}{
		"its own":              {freed: []string{library}, how: "free", rules: []string{"memory-freed"}},
		"a cache":              {freed: []string{program}, how: "free"},
		"a cache, reused":      {freed: []string{program, library}, how: "free"},
		"a cache, reallocated": {freed: []string{program, library}, how: "realloc"},
		"a cache, unmapped":    {freed: []string{program}, how: "munmap", rules: []string{"memory-freed"}},
	} {
		t.Run(name, func(t *testing.T) {
			module := library
			check.UseStacks(check.Stacks{
				Capture:  func(pcs []uintptr) int { pcs[0] = uintptr(len(module) + int(module[0])); return 1 },
				Describe: func([]uintptr) []check.Frame { return nil },
				Module: func(pcs []uintptr) string {
					if pcs[0] == uintptr(len(library)+int(library[0])) {
						return library
					}
					return program
				},
			})
			defer check.UseStacks(check.Stacks{})
			w := newLoop(t, "roce", verbs.QPInit{Type: verbs.RC})
			for _, module = range c.freed {
				w.checker.Freed(w.mr, w.mr.Addr(), w.mr.Addr()+64, c.how, true)
			}
			w.want(c.rules...)
		})
	}
}
