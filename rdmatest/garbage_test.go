// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestGarbage: nothing keeps the devices of a world that has been played, not even a listener that its program has not
// closed. A test plays thousands of worlds.
func TestGarbage(t *testing.T) {
	var dev weak.Pointer[verbs.Device]
	rdmatest.Run(t, 1, func(w *rdmatest.World) {
		d := w.Host("a").RoCE()
		if _, err := cm.Listen(w.Context(), d, ":7"); err != nil {
			w.Fatal(err)
		}
		dev = weak.Make(d)
	})
	for end := time.Now().Add(time.Minute); dev.Value() != nil; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("the device is kept")
		}
	}
}
