// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// A device listens for datagrams at the port datagramPort plus its slot.
	datagramPort = streamdev.RendezvousPort + 64
	// datagramsAtOnce is how many a queue pair sends before others have their turn.
	datagramsAtOnce = 256
	// maxDatagramPeers limits the devices that this one has links to, and the devices that have links to it.
	maxDatagramPeers = 1024
)

// datagrams are the datagrams of a device's UD queue pairs, over shared memory. They go from device to device: a device
// makes a link to each that one of its queue pairs sends to, at the first datagram, and only sends there. The others'
// datagrams come by the links that they have made. So a datagram goes to the process that listens at its destination,
// and nobody can listen at another's.
type datagrams struct {
	dev      *streamdev.Device
	net      Network
	engine   *local.Device
	lane     *local.Lane
	listener *datagramListener // nil: there has been no UD queue pair
	to       map[deviceKey]*datagramLink
	uses     uint64
	from     *softdev.HalfOpen[*datagramLink]
	found    []*local.DatagramQP // by find
	groups
}

// deviceKey identifies a device, or a listener of a group.
type deviceKey struct {
	addr netip.Addr
	slot int
}

func newDatagrams(d *streamdev.Device, net Network, e *local.Device, l *local.Lane) *datagrams {
	u := &datagrams{dev: d, net: net, engine: e, lane: l, to: make(map[deviceKey]*datagramLink),
		from: softdev.NewHalfOpen[*datagramLink](maxDatagramPeers)}
	u.groups.init()
	return u
}

// open starts to listen. A device without UD queue pairs does not.
func (u *datagrams) open() error {
	if u.listener != nil {
		return nil
	}
	at := u.dev.Addr()
	acc, err := u.net.Listen(netip.AddrPortFrom(at.Addr(), at.Port()+datagramPort-streamdev.RendezvousPort),
		maxDatagramPeers)
	if err == nil {
		u.listener = u.newListener(acc, nil)
	}
	return err
}

// datagramListener accepts links for datagrams to the device, or to its members of a group.
type datagramListener struct {
	all     *datagrams
	acc     streamdev.Acceptor
	members *members      // nil: the datagrams are for one queue pair each
	again   softdev.Timer // accepts again after the system had no room for a link
}

func (u *datagrams) newListener(acc streamdev.Acceptor, g *members) *datagramListener {
	o := &datagramListener{all: u, acc: acc, members: g}
	o.again.Fire = func() { acc.Watch(true) }
	acc.Own(o)
	return o
}

func (o *datagramListener) close() {
	o.all.dev.Lane.Timers.Stop(&o.again)
	o.acc.Close()
}

func (o *datagramListener) Handle(bool, bool) { o.accept() }

// accept accepts links. With too many, the address that has the most of them loses its oldest.
func (o *datagramListener) accept() {
	u, d := o.all, o.all.dev
	for range streamdev.AcceptsAtOnce {
		link, err := o.acc.Accept()
		switch {
		case errors.Is(err, softdev.ErrAgain):
			return
		case err != nil:
			d.CountNoRoom()
			if oldest, ok := u.from.Oldest(); ok {
				oldest.end()
				continue
			}
			o.acc.Watch(false)
			d.Lane.Timers.Set(&o.again, d.Lane.PassTime()+streamdev.AcceptPause)
			d.Lane.WakeForTimer()
			return
		}
		l := u.newLink(link.(Link), deviceKey{addr: link.PeerAddr().Addr()})
		l.joinGroup(o.members)
		u.from.Add(l.device.addr, l)
		if l.receive(); u.from.Full() {
			oldest, _ := u.from.Oldest()
			oldest.end()
		}
	}
}

// link returns the link to the device of a queue pair at an address; nil: there is no such device.
func (u *datagrams) link(addr netip.Addr, qpn verbs.QPN) *datagramLink {
	at := deviceKey{addr, int(qpn >> (24 - slotBits))}
	if l := u.to[at]; l != nil {
		u.use(l)
		return l
	}
	l, err := u.dial(at, uint16(datagramPort+at.slot))
	if err != nil {
		return nil // or the system has no room for one more
	}
	return l
}

// use notes that a link is used.
func (u *datagrams) use(l *datagramLink) {
	u.uses++
	l.used = u.uses
}

// dial makes a link to the listener at a port.
func (u *datagrams) dial(at deviceKey, port uint16) (*datagramLink, error) {
	if len(u.to) == maxDatagramPeers {
		u.forgetOne()
	}
	link, err := u.net.DialNow(u.listener.acc.Addr(), netip.AddrPortFrom(at.addr, port))
	if err != nil {
		return nil, err
	}
	l := u.newLink(link, at)
	l.out = true
	u.use(l)
	u.to[at] = l
	return l, nil
}

// forgetOne ends the link that was not used for longest.
func (u *datagrams) forgetOne() {
	var oldest *datagramLink
	for _, l := range u.to {
		if oldest == nil || l.used < oldest.used {
			oldest = l
		}
	}
	oldest.end()
}

func (u *datagrams) newLink(link Link, at deviceKey) *datagramLink {
	l := &datagramLink{all: u, link: link, device: at}
	l.waitLimit.Fire = l.stall
	l.finder = l.find
	link.Own(l)
	return l
}

// datagramLink carries datagrams one way, to another device or from it.
type datagramLink struct {
	all       *datagrams
	link      Link
	out       bool
	device    deviceKey   // of the other device; only its address is known of one that sends
	peer      *local.Peer // nil: the other side has not said hello
	used      uint64
	waiting   []*datagramQP // for room, or for the other side
	stalled   bool          // they have waited for too long: datagrams that find no room are dropped
	waitLimit softdev.Timer // of the wait

	members    *members    // nil: each datagram is for one queue pair
	recipients *recipients // nil: it goes to one queue pair each
	finder     func(to, from verbs.QPN) []*local.DatagramQP
}

// find returns the queue pairs that a datagram is for.
func (l *datagramLink) find(to, from verbs.QPN) []*local.DatagramQP {
	u := l.all
	u.found = u.found[:0]
	if l.members != nil {
		u.found = l.members.find(u.found, to, from, l.device.addr == u.dev.Addr().Addr())
	} else if q, ok := u.dev.QPs[to].(*datagramQP); ok {
		u.found = append(u.found, q.engine)
	}
	return u.found
}

// Handle receives and sends after the peer did something.
func (l *datagramLink) Handle(bool, bool) { l.receive() }

func (l *datagramLink) receive() {
	u, d := l.all, l.all.dev
	if l.peer == nil {
		err := l.link.Connected()
		if errors.Is(err, softdev.ErrAgain) {
			return
		}
		if err == nil {
			l.peer, err = l.link.Join(nil)
		}
		if err != nil {
			l.end()
			return
		}
	}
	ended, moved := l.link.Ended(), 0
	err := l.peer.CheckDatagrams(!l.out) // and then look for room
	if err == nil && !l.out {
		var wake bool
		to := d.Addr().Addr()
		if l.members != nil {
			to = l.members.addr
		}
		_, moved, wake, err = u.engine.ReceiveDatagrams(u.lane, l.peer, ib.GIDFromAddr(l.device.addr),
			ib.GIDFromAddr(to), budget, l.finder)
		d.Moved(moved)
		if wake {
			l.link.Ring()
		}
	}
	d.Lane.Mu.Counted = true
	if err != nil {
		u.lane.Counters.Lost++
	}
	if err != nil || ended && moved == 0 {
		l.end()
		return
	}
	l.resume()
	if ended || moved >= budget {
		l.pollAgain() // nothing else will report the link
	}
}

// pollAgain has the next pass look at the link, and makes sure that there is one.
func (l *datagramLink) pollAgain() {
	l.link.Again()
	l.all.dev.Lane.WakeBy(l.all.dev.Lane.PassTime())
}

// wait has a queue pair wait for room.
func (l *datagramLink) wait(q *datagramQP) {
	d := l.all.dev
	l.waiting = append(l.waiting, q)
	q.waits = l
	if l.peer != nil && !l.peer.Await(true) {
		l.pollAgain() // there is room now
	}
	if !l.waitLimit.IsSet() {
		d.Lane.Timers.Set(&l.waitLimit, d.Lane.PassTime()+streamdev.UnreliableTimeout)
		d.Lane.WakeForTimer()
	}
}

// leave undoes wait.
func (l *datagramLink) leave(q *datagramQP) {
	l.waiting = slices.DeleteFunc(l.waiting, func(o *datagramQP) bool { return o == q })
	q.waits = nil
}

// resume has the queue pairs that wait go on.
func (l *datagramLink) resume() {
	all := l.waiting
	l.waiting = nil
	if l.peer != nil {
		l.peer.Await(false)
	}
	for _, q := range all {
		q.waits = nil
		q.advance()
	}
}

// stall ends the wait.
func (l *datagramLink) stall() {
	l.stalled = true
	l.resume()
	l.all.dev.Lane.Deliver()
}

// sent notes that a datagram has found room. wake says that the other side sleeps and is to be woken.
func (l *datagramLink) sent(wake bool) {
	if wake {
		l.link.Ring()
	}
	l.stalled = false
	l.all.dev.Lane.Timers.Stop(&l.waitLimit)
}

// end closes the link. The datagrams that have waited for longest are dropped, but for those to a group. The datagrams
// behind them make another link, if somebody is there.
func (l *datagramLink) end() {
	u := l.all
	if l.out {
		delete(u.to, l.device)
	} else {
		u.from.Remove(l.device.addr, l)
	}
	l.leaveGroup()
	u.dev.Lane.Timers.Stop(&l.waitLimit)
	l.link.Close(true)
	for _, q := range l.waiting {
		if _, _, ok := q.engine.Next(); ok && l.recipients == nil {
			q.engine.Drop(local.DropNobody)
		}
	}
	l.resume()
	u.dev.Lane.Deliver()
}
