// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
)

// Fabric is an InfiniBand fabric of a world, with its switches and subnet manager. Packets take time on its links
// according to their width and speed.
type Fabric struct {
	*infiniband.Fabric
	sim *simnet.Fabric
}

// Fabric starts a fabric of a generated topology, such as "pair", "star:4" or "fat-tree:3,2", and waits until it is
// up.
func (w *World) Fabric(shape string) *Fabric {
	w.Helper()
	f, err := w.net.NewFabric(shape, w.seed)
	if err != nil {
		w.Fatal(err)
	}
	w.Say("a fabric: %s", shape)
	w.mu.Lock()
	w.fabrics = append(w.fabrics, f)
	w.mu.Unlock()
	f.AwaitActive()
	return &Fabric{f.Fabric, f}
}
