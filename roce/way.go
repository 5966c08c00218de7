// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"github.com/ramjet-rdma/ramjet/internal/netio"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// way is a socket that sends to one peer, for which the kernel has less work, and the flow
// of what it sends. It has a source port of its own, which may be any in RoCEv2 (annex
// A17): peers send to port 4791 always.
type way struct {
	sock *netio.Connected
	flow ib.Flow
}

// maxWays bounds the sockets of a device. What goes to further peers leaves by the socket
// that receives.
const maxWays = 64

// Connect prepares for packets of queue pairs that are connected by a route.
func (p *port) Connect(to any) {
	r := to.(*route)
	w := p.ways[r.to]
	if w == nil && len(p.ways) < maxWays {
		sock, err := p.sock.Connect(r.to)
		if err != nil {
			return
		}
		w = &way{sock, ib.NewFlow(sock.LocalAddr(), r.to, true)}
		p.ways[r.to] = w
	}
	r.way = w
}

// Disconnect undoes Connect: no queue pair is connected to that host any more.
func (p *port) Disconnect(to any) {
	r := to.(*route)
	if w := p.ways[r.to]; w != nil {
		w.sock.Close()
		delete(p.ways, r.to)
	}
	r.way = nil
}

// dropWay is called where a route's way fails for good: packets leave by the socket that receives.
// The other routes of the way find out for themselves, and by then others to the same host may have
// another one.
func (p *port) dropWay(r *route) {
	r.way.sock.Close()
	if p.ways[r.to] == r.way {
		delete(p.ways, r.to)
	}
	r.way = nil
}
