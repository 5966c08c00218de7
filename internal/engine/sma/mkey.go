// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// authorize reports whether a request has the M_Key that it needs (section 14.2.4). If not, it counts the violation,
// starts the lease period, and raises a trap.
func (a *Agent) authorize(q *request) bool {
	num := a.addressPortNum(q.at)
	k, s := &a.node.Ports[num].Authority, &a.ports[num]
	a.expire(q.now, num)
	switch {
	case k.MKey == 0 || k.MKey == q.p.MKey:
		s.lease = 0 // the manager is still there
		return true
	case q.p.Method == mad.MethodGet && k.Protect < 2:
		return true
	}
	if k.Violations < math.MaxUint16 {
		k.Violations++
	}
	if s.lease == 0 && k.Lease > 0 {
		s.lease = q.now + clock.Time(time.Duration(k.Lease)*time.Second)
	}
	a.reportMKey(q, num)
	return false
}

// expire ends the protection of a port whose lease has expired: then anybody can read the M_Key and take over the port
// (section 14.2.4.2).
func (a *Agent) expire(now clock.Time, num int) {
	if s := &a.ports[num]; s.lease != 0 && now >= s.lease {
		s.lease = 0
		a.node.Ports[num].Authority.Protect = 0
	}
}

// visibleMKey returns the M_Key in the response to a Get of PortInfo: at protection level 0 it is visible to all, above
// only to requesters that know it (section 14.2.4.1).
func (a *Agent) visibleMKey(q *request, num int) uint64 {
	if k := &a.node.Ports[num].Authority; k.Protect == 0 || k.MKey == q.p.MKey {
		return k.MKey
	}
	return 0
}
