// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// serve handles UDP datagrams until the socket is closed.
func (p *PacketConn) serve() {
	buf := make([]byte, rsocket.MaxDatagram)
	failed := 0 // in a row
	for {
		n, from, err := p.udp.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // the fate of an earlier datagram, or an error that may persist
			failed = min(failed+1, 100)
			time.Sleep(time.Duration(failed) * time.Millisecond)
			continue
		}
		failed = 0
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		var h rsocket.UDPHeader
		k := h.Decode(buf[:n])
		if k == 0 {
			continue
		}
		p.learn(from, verbs.QPN(h.QPN))
		if h.Op != rsocket.UDPData {
			continue
		}
		p.udp.WriteToUDPAddrPort(p.udpHeader(rsocket.UDPCtrl), from)
		p.mu.Lock()
		if len(p.read.early) < maxEarly {
			p.read.early = append(p.read.early, packet{from, append([]byte(nil), buf[k:n]...)})
			p.read.wakeUp()
			p.notify.call()
		}
		p.mu.Unlock()
	}
}

func (p *PacketConn) udpHeader(op rsocket.UDPOp) []byte {
	h := rsocket.UDPHeader{Op: op, QPN: uint32(p.qp.Num()), Addr: p.local.Addr()}
	return h.Append(make([]byte, 0, rsocket.MaxDatagram))
}

// learn records the queue pair of an address.
func (p *PacketConn) learn(from netip.AddrPort, qpn verbs.QPN) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	peer := p.peers[from]
	if peer == nil {
		ah, err := p.pd.CreateAH(verbs.AHAttr{DGID: verbs.GID(from.Addr().As16()), SGIDIndex: p.sgid})
		if err != nil {
			return // not reachable by the device: it stays with UDP
		}
		if len(p.peers) >= maxPeers {
			for a, old := range p.peers { // any: it will be learned again
				old.ah.Close()
				delete(p.peers, a)
				break
			}
		}
		peer = &packetPeer{ah: ah}
		p.peers[from] = peer
	}
	peer.qpn, peer.seen = qpn, time.Now()
}
