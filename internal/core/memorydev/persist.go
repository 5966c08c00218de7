// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
)

// persist executes a FLUSH to persistence without the device's lock, because a disk is slow. A
// queue pair has one at a time, so there are no more goroutines than queue pairs.
func (m *carrier) persist(f *local.Flush) {
	go func() {
		err := memory.Persist(f.Memory())
		d := m.dev
		d.Lane.Mu.Lock()
		defer d.Lane.Mu.Unlock()
		d.Lane.NewTime() // the disk took time
		if !d.Closed.Load() && f.Done(err == nil) {
			f.QP().Owner.(*streamdev.QP).Endpoint.(*endpoint).again()
		}
	}()
}
