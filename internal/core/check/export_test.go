// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/ramjet-rdma/ramjet/verbs"

// UseUp has the device of a queue pair write to the program's memory where it has no other.
func (c *Checker) UseUp(qp *verbs.QP) {
	d := c.deviceOf(qp)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bounce.total = maxBounce
}

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
