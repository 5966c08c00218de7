// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
)

// persist carries out a FLUSH to persistence without the device's lock, as a disk takes its time.
// A queue pair has one at a time, so that there are no more goroutines than queue pairs.
func (d *Device) persist(f *ibta.Flush) {
	go func() {
		err := memory.Persist(f.Memory())
		d.mu.Lock()
		defer d.mu.Unlock()
		d.passNow = 0 // it took as long as the disk does
		if q := f.QP().Owner.(*qp); !d.closed && f.Done(err == nil) && d.qps[q.engine.Num] == q {
			d.deliverOutbox()
			d.kick(q)
		}
	}()
}
