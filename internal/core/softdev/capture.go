// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// CaptureQP adds a queue pair's packets to a ring from now on; nil: to none.
func (d *Device) CaptureQP(n verbs.QPN, r *observe.Ring) error {
	d.view.Lock()
	defer d.view.Unlock()
	q := d.QPs[n]
	if q == nil {
		return &verbs.OpError{Op: "keep_packets", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("there is no queue pair %d", n)}
	}
	q.Common().Capture.Store(r)
	return nil
}
