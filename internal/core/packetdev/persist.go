// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
)

// persist executes a FLUSH to persistence without the device's lock, because a disk is slow. A
// queue pair has one at a time, so there are no more goroutines than queue pairs.
func (d *Device) persist(f *ibta.Flush) {
	go func() {
		err := memory.Persist(f.Memory())
		q := f.QP().Owner.(*qp)
		l := q.lane
		l.core.Mu.Lock()
		defer l.core.Mu.Unlock()
		l.core.NewTime() // the disk took time
		done := !d.Closed.Load() && f.Done(err == nil)
		d.TellWatchers() // of requests that had waited for the FLUSH
		if done && d.findQP(q.engine.Num) == q {
			l.core.Deliver()
			l.kick(q)
		}
	}()
}
