// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// BenchmarkBringUpOpenSM is BenchmarkBringUp with OpenSM instead of the built-in manager: from its start as
// a program until every port with a cable is active, the making of the nodes not included. Its window is how
// many of its requests may be unanswered; its own default is 4.
func BenchmarkBringUpOpenSM(b *testing.B) {
	for name, option := range map[string]string{"window=4": "max_wire_smps 4", "window=32": "max_wire_smps 32"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f, err := infiniband.GenerateFabric("xgft:10,10,10;1,5,5", &infiniband.FabricOptions{NoManager: true})
				if err != nil {
					b.Fatal(err)
				}
				x := newTools(b, f, "opensm")
				b.StartTimer()
				s := x.openSM("", option)
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
				if err := f.AwaitActive(ctx); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				cancel()
				s.end()
				f.Close()
				b.StartTimer()
			}
		})
	}
}
