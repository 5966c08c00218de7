// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// silentNetwork makes links whose other side says nothing.
type silentNetwork struct {
	Network
	open, come int
}

func (n *silentNetwork) Dial(_, to netip.AddrPort, _ uint8) (streamdev.Link, error) {
	n.open++
	return &silentLink{net: n, to: to}, nil
}

func (n *silentNetwork) DialNow(from, to netip.AddrPort) (Link, error) {
	l, err := n.Dial(from, to, 0)
	return l.(Link), err
}
func (n *silentNetwork) Ports() int { return 0 }
func (n *silentNetwork) Own(any)    {}
func (n *silentNetwork) Watch(bool) {}
func (n *silentNetwork) Addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.IPv4Unspecified(), datagramPort)
}
func (n *silentNetwork) Accept() (streamdev.Link, error) {
	if n.come == 0 {
		return nil, softdev.ErrAgain
	}
	n.come--
	return n.Dial(netip.AddrPort{}, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n.come)}), 1), 0)
}

type silentLink struct {
	Link
	net *silentNetwork
	to  netip.AddrPort
}

func (l *silentLink) Own(any)                  {}
func (l *silentLink) Connected() error         { return softdev.ErrAgain }
func (l *silentLink) PeerAddr() netip.AddrPort { return l.to }
func (l *silentLink) Close(bool)               { l.net.open-- }

// silentNetwork is the network as the listener of its only device.
type silentListener struct{ *silentNetwork }

func (silentListener) Close() error { return nil }

// TestDatagramLinks has one queue pair send to more devices than there may be links to, and more devices come
// than may have one.
func TestDatagramLinks(t *testing.T) {
	net := &silentNetwork{}
	d := new(streamdev.Device)
	d.Init(d, net, &queue.Device{}, []softdev.Engine{{Transport: d, Outbox: &queue.Outbox{}}}, verbs.DeviceAttr{})
	u := newDatagrams(d, net, nil, nil)
	u.listener = u.newListener(silentListener{net}, nil)
	first := u.link(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	for i := range 2 * maxDatagramPeers {
		to := netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)})
		l := u.link(to, 63<<18|5)
		if l == nil || u.link(to, 63<<18|6) != l || l.device != (deviceKey{to, 63}) {
			t.Fatalf("link %+v to %v", l, to)
		}
		if u.link(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1) != first {
			t.Fatal("a link that is used goes for another")
		}
	}
	if len(u.to) != maxDatagramPeers || net.open != maxDatagramPeers {
		t.Errorf("%d links, %d of the network", len(u.to), net.open)
	}
	net.open, net.come = 0, 2*maxDatagramPeers
	for net.come > 0 {
		u.listener.accept()
	}
	if u.from.Len() != maxDatagramPeers || net.open != maxDatagramPeers {
		t.Errorf("%d links from others, %d of the network", u.from.Len(), net.open)
	}
}
