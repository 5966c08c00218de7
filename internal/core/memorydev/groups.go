// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// MaxGroupListeners is how many devices can have members of one multicast group.
const MaxGroupListeners = 64

// maxGroupsSentTo is how many groups a device keeps links for.
const maxGroupsSentTo = 64

// groups are the multicast groups of a device, over shared memory. A device with members of a group has a listener for
// the group, besides that for datagrams to one queue pair. One that sends to the group makes a link to each of these
// listeners. It looks for them with its first datagram, and again when its watch reports another.
type groups struct {
	attached map[netip.Addr]*members
	sentTo   map[netip.Addr]*recipients
}

func (g *groups) init() {
	g.attached, g.sentTo = make(map[netip.Addr]*members), make(map[netip.Addr]*recipients)
}

// members are the device's queue pairs that are attached to a group.
type members struct {
	addr     netip.Addr
	listener *datagramListener
	qps      []*datagramQP
	links    []*datagramLink // of the senders
}

// attach makes a queue pair a member of a group.
func (u *datagrams) attach(q *datagramQP, addr netip.Addr) error {
	g := u.attached[addr]
	if g == nil {
		g = &members{addr: addr}
		acc, err := u.net.ListenGroup(addr, maxDatagramPeers)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrNoMemory,
				Detail: fmt.Sprintf("%d devices of this host are in group %v", MaxGroupListeners, addr)}
		case err != nil:
			return &verbs.OpError{Op: "attach_mcast", Err: err}
		}
		g.listener = u.newListener(acc, g)
		u.attached[addr] = g
	}
	g.qps = append(g.qps, q)
	return nil
}

// detach undoes attach.
func (u *datagrams) detach(q *datagramQP, addr netip.Addr) {
	g := u.attached[addr]
	if g.qps = slices.DeleteFunc(g.qps, func(o *datagramQP) bool { return o == q }); len(g.qps) > 0 {
		return
	}
	delete(u.attached, addr)
	g.listener.close()
	for len(g.links) > 0 {
		g.links[0].end()
	}
}

// find adds the queue pairs that a datagram is for. own says that one of this device's address has sent it.
func (g *members) find(list []*local.DatagramQP, to, from verbs.QPN, own bool) []*local.DatagramQP {
	if to != ib.QPNMulticast {
		return list
	}
	for _, q := range g.qps {
		if !q.blockSelf || !own || q.engine.Num != from {
			list = append(list, q.engine)
		}
	}
	return list
}

// recipients are the devices that have members of a group, as one that sends to it knows them.
type recipients struct {
	all   *datagrams
	addr  netip.Addr
	watch GroupWatch
	links []*datagramLink
	stale bool // there may be a listener without a link
	used  uint64
}

// recipientsOf returns the recipients of a group, or nil if the system has no room for another watch.
func (u *datagrams) recipientsOf(addr netip.Addr) *recipients {
	a := u.sentTo[addr]
	if a == nil {
		if len(u.sentTo) == maxGroupsSentTo {
			u.forgetGroup()
		}
		w, err := u.net.WatchGroup(addr)
		if err != nil {
			return nil
		}
		a = &recipients{all: u, addr: addr, watch: w, stale: true}
		u.sentTo[addr] = a
	}
	u.uses++
	a.used = u.uses
	return a
}

// forgetGroup forgets the group that nothing was sent to for longest.
func (u *datagrams) forgetGroup() {
	var oldest *recipients
	for _, a := range u.sentTo {
		if oldest == nil || a.used < oldest.used {
			oldest = a
		}
	}
	delete(u.sentTo, oldest.addr)
	oldest.watch.Close()
	for len(oldest.links) > 0 {
		oldest.links[0].end()
	}
}

// connect makes links to the listeners that there are none to.
func (a *recipients) connect() {
	if !a.watch.Changed() && !a.stale {
		return
	}
	a.stale = false
	u := a.all
	for place := 1; place <= MaxGroupListeners; place++ {
		at := deviceKey{a.addr, place}
		if u.to[at] != nil {
			continue
		}
		l, err := u.dial(at, uint16(place))
		if err != nil {
			a.stale = a.stale || !errors.Is(err, syscall.ECONNREFUSED)
			continue
		}
		l.recipients = a
		a.links = append(a.links, l)
	}
}

// send sends a queue pair's datagram to all. It returns false if it waits for room on the way to one of them.
func (a *recipients) send(q *datagramQP) bool {
	for _, l := range a.links {
		if !l.stalled && !l.fits(q) {
			l.wait(q)
			return false
		}
	}
	var broken []*datagramLink
	copies, stalled := 0, uint64(0)
	for _, l := range a.links {
		if l.peer == nil {
			stalled++
			continue
		}
		o, wake, err := q.engine.Send(l.peer)
		switch {
		case o == local.Failed:
			return true
		case err != nil:
			broken = append(broken, l)
			continue
		case o == local.NoRoom:
			stalled++
			continue
		}
		copies++
		a.all.use(l)
		l.sent(wake)
	}
	a.all.lane.Counters.Dropped[local.DropStalled] += stalled
	if copies == 0 && stalled == 0 {
		q.engine.Drop(local.DropNobody)
	} else {
		q.engine.Sent()
	}
	for _, l := range broken {
		l.end()
	}
	return true
}

// fits reports whether there is room for a queue pair's datagram, or never will be.
func (l *datagramLink) fits(q *datagramQP) bool {
	if l.peer == nil {
		return false
	}
	room, err := q.engine.Room(l.peer)
	return room || err != nil
}

// joinGroup notes which group a link's datagrams are for; nil: for none.
func (l *datagramLink) joinGroup(g *members) {
	if l.members = g; g != nil {
		g.links = append(g.links, l)
	}
}

// leaveGroup removes a link from its group.
func (l *datagramLink) leaveGroup() {
	is := func(o *datagramLink) bool { return o == l }
	if g := l.members; g != nil {
		g.links = slices.DeleteFunc(g.links, is)
	}
	if a := l.recipients; a != nil {
		a.links, a.stale = slices.DeleteFunc(a.links, is), true
	}
}
