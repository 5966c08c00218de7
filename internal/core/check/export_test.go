// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/ramjet-rdma/ramjet/verbs"

// Outstanding returns how many send work requests of a queue pair the checker knows that have not completed.
func (c *Checker) Outstanding(qp *verbs.QP) int {
	d := c.deviceOf(qp)
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.known.qps[qp.Num()]; q != nil && q.qp == qp {
		return len(q.sends)
	}
	return 0
}
