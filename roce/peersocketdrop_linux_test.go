// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A socket that fails for good is lost for its routes alone, one after the other as they send: that
// which others to the same host have by then stays.
func TestDroppedWay(t *testing.T) {
	if err := loopback.TellsIdentification(); err != nil {
		t.Skip(err)
	}
	addr := loopback.Next()
	link, err := findLink(addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &port{local: netip.AddrPortFrom(addr, ib.UDPPort), link: link, watch: link.watch(addr)}
	if err := p.listen(false); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.init()
	host, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback.Next(), ib.UDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	gid := ib.GIDFromAddr(host.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
	connected := func() *route {
		to, err := p.Resolve(&verbs.AHAttr{DGID: gid})
		if err != nil {
			t.Fatal(err)
		}
		p.Connect(to)
		return to.(*route)
	}
	// port returns where a packet of a route comes from.
	port := func(r *route) uint16 {
		var b ibta.Batch
		b.SetDatagram(&ibta.Vector{Path: r}, &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: 5},
			Payload: make([]byte, 8)})
		if err := p.Send(&b); err != nil {
			t.Fatal(err)
		}
		var got [256]byte
		_, from, err := host.ReadFromUDPAddrPort(got[:])
		if err != nil {
			t.Fatal(err)
		}
		return from.Port()
	}
	first, second := connected(), connected()
	sock := first.sock
	if sock == nil {
		t.Fatal("the route has no connected socket")
	}
	if second.sock != sock || port(first) != sock.sock.LocalAddr().Port() || port(second) != port(first) {
		t.Fatal("two routes to a host have two sockets")
	}
	sock.sock.Close() // as where the system has no way to learn its identification any more
	if port(first) != ib.UDPPort || first.sock != nil {
		t.Error("the first route still has its socket")
	}
	third := connected()
	if third.sock == sock || third.sock == nil {
		t.Fatal("a new route got the lost socket")
	}
	if port(second) != ib.UDPPort || second.sock != nil {
		t.Error("the second route still has its socket")
	}
	if p.peerSockets[third.to] != third.sock || port(third) != third.sock.sock.LocalAddr().Port() {
		t.Error("the new socket went with the old one")
	}
	p.Disconnect(first)
	if len(p.peerSockets) != 0 {
		t.Error("a socket is left")
	}
}
