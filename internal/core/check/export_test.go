// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/ramjet-rdma/ramjet/verbs"

// Outstanding returns how many send work requests of a queue pair the checker knows that have not completed.
func (c *Checker) Outstanding(qp *verbs.QP) int {
	c.mu.Lock()
	devices := c.devices
	c.mu.Unlock()
	for _, p := range devices {
		d := p.Value()
		if d == nil {
			continue
		}
		d.mu.Lock()
		q := d.known.qps[qp.Num()]
		n := -1
		if q != nil && q.qp == qp {
			n = len(q.sends)
		}
		d.mu.Unlock()
		if n >= 0 {
			return n
		}
	}
	return 0
}
