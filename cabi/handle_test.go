// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"sync"
	"testing"
)

// A handle stands for one object only, ever.
func TestHandles(t *testing.T) {
	objects := newTable[int]()
	old := map[uint64]bool{0: true}
	for i := range 1000 {
		v := i
		h := objects.put(&v)
		if old[h] || objects.get(h) != &v {
			t.Fatalf("object %d: handle %#x", i, h)
		}
		if i%3 != 0 {
			objects.drop(h)
			objects.drop(h)
			old[h] = true
		}
	}
	for h := range old {
		if objects.get(h) != nil {
			t.Errorf("%#x was dropped", h)
		}
	}
	if objects.get(1<<40) != nil || objects.get(999) != nil {
		t.Error("handles that were never given out")
	}
	v := 0
	if h := objects.put(&v); newTable[int]().get(h) != nil || objects.get(h) != &v {
		t.Error("a handle of another table")
	}
}

// A thread that looks up a handle while it is dropped finds its object or nothing.
func TestHandleDropped(t *testing.T) {
	objects := newTable[int]()
	var wg sync.WaitGroup
	for i := range 1000 {
		v, other := i, -1
		h := objects.put(&v)
		wg.Go(func() {
			if found := objects.get(h); found != nil && found != &v {
				t.Error("another object")
			}
		})
		objects.drop(h)
		objects.drop(objects.put(&other))
		wg.Wait()
	}
}
