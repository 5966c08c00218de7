// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

type thing struct {
	id, place int
}

func (t *thing) ListIndex() *int { return &t.place }

// Objects that are there all the time are listed, however many others come and go between pages.
func TestObjectList(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var r ObjectList[*thing]
		var all []*thing
		add := func() {
			th := &thing{id: len(all)}
			r.Add(th)
			all = append(all, th)
		}
		for range random.IntN(40) {
			add()
		}
		gone, late := map[int]bool{}, len(all)
		seen := map[int]bool{}
		for at := driver.FirstPage; at > 0; {
			page, next := r.Page(1+random.IntN(4), at)
			for _, th := range page {
				if gone[th.id] {
					t.Fatalf("seed %d: %d is listed after its removal", seed, th.id)
				}
				seen[th.id] = true
			}
			at = next
			for range random.IntN(3) {
				if len(all) == 0 || random.IntN(2) == 0 {
					add()
				} else if th := all[random.IntN(len(all))]; !gone[th.id] {
					r.Remove(th)
					gone[th.id] = true
				}
			}
		}
		for id := range late {
			if !gone[id] && !seen[id] {
				t.Errorf("seed %d: %d was there all the time and is not listed", seed, id)
			}
		}
	}
}
