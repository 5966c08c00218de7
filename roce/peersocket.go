// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// peerSocket is a socket that sends to one peer, which takes the kernel less work, and the pseudo header of its
// packets. It has a source port of its own. In RoCEv2 that may be any port (annex A17): peers
// always send to port 4791.
type peerSocket struct {
	sock   *netio.Connected
	pseudo ib.PseudoHeader
}

// ecn is the field of the TOS about congestion (RFC 3168 section 5): zero permits no marks, both bits are one.
const ecn = 3

// marked reports whether a packet with a TOS met congestion.
func marked(tos uint8) bool { return tos&ecn == ecn }

// maxPeerSockets limits the connected sockets of a device. Packets to further peers leave through the
// receiving socket.
const maxPeerSockets = 64

// Connect prepares for packets of queue pairs that are connected by a route. The TTL and TOS of a host's first route
// become the socket's own, at no cost per packet; the TTL and TOS of other routes go with each send.
//
// If congestion may be marked in a route's packets (RFC 3168), the peer's are taken to permit that too,
// and arrivals tell it from then on. Nobody else pays for that.
func (p *port) Connect(to ibta.Path) {
	r := to.(*route)
	if r.tos&ecn != 0 {
		p.sock.RecvTOS() // without it nobody hears of congestion
	}
	w := p.peerSockets[r.to]
	if w == nil && len(p.peerSockets) < maxPeerSockets {
		sock, err := p.sock.Connect(r.to, r.ttl, r.tos)
		if err != nil {
			return
		}
		w = &peerSocket{sock, ib.NewPseudoHeader(sock.LocalAddr(), r.to, true)}
		p.peerSockets[r.to] = w
	}
	r.sock = w
}

// Disconnect undoes Connect: no queue pair is connected to that host any more.
func (p *port) Disconnect(to ibta.Path) {
	r := to.(*route)
	if w := p.peerSockets[r.to]; w != nil {
		w.sock.Close()
		delete(p.peerSockets, r.to)
	}
	r.sock = nil
}

// dropPeerSocket is called when a route's socket has failed for good: packets leave through the receiving
// socket. The other routes of that socket find out for themselves. By then others to the same host may
// have a new one.
func (p *port) dropPeerSocket(r *route) {
	r.sock.sock.Close()
	if p.peerSockets[r.to] == r.sock {
		delete(p.peerSockets, r.to)
	}
	r.sock = nil
}
