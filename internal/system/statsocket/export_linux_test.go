// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"net"
	"time"
)

// MaxWatchers is maxWatchers.
const MaxWatchers = maxWatchers

// ServeWatchers serves watchers at an address with a lease. left returns how many there are.
func ServeWatchers(at string, lease time.Duration) (addr net.Addr, left func() int, end func(), err error) {
	l, err := listen(at)
	if err != nil {
		return nil, nil, nil, err
	}
	s := newPacketServer(l)
	s.lease = lease
	go s.serve()
	left = func() int {
		s.lock.Lock()
		defer s.lock.Unlock()
		return len(s.conns)
	}
	return l.Addr(), left, s.close, nil
}
