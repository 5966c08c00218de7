// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

func TestManagerQuick(t *testing.T) {
	for _, text := range []string{"pair", "star 4", "fat"} {
		top := topology.Pair()
		if text == "star 4" {
			top, _ = topology.Star(4)
		}
		if text == "fat" {
			var err error
			if top, err = topology.XGFT([]int{10, 10, 10}, []int{1, 5, 5}); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		done := make(chan bool, 1)
		run, err := fabric.New(top, &fabric.Options{Manager: fabric.ManagerOptions{Event: func(e sm.Event) {
			fmt.Println(time.Since(start), e)
			if e.Kind == sm.SweepDone {
				select {
				case done <- true:
				default:
				}
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(time.Minute):
		}
		v := run.View()
		active := 0
		for _, n := range v.Nodes {
			for _, p := range n.Ports {
				if p.State == 4 {
					active++
				}
			}
		}
		fmt.Println(text, len(v.Nodes), active, time.Since(start))
		run.Close()
	}
}
