// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// capture adds a queue pair's packets to a ring from now on; nil: to none.
func (d *Device) capture(n verbs.QPN, r *observe.Ring) error {
	d.view.Lock()
	defer d.view.Unlock()
	q := d.qps[n]
	if q == nil {
		return &verbs.OpError{Op: "keep_packets", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("there is no queue pair %d", n)}
	}
	q.common().capture.Store(r)
	return nil
}
