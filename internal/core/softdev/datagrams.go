// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// datagramPort, and a device's slot, is where datagrams for the device go: its door for them.
	datagramPort = meetPort + 64
	// datagramPatience is how long datagrams wait for a device whose process takes none. Switches of
	// InfiniBand have such a limit, too (HOQLife, IBTA 14.2.5.6).
	datagramPatience = clock.Time(4 * time.Second)
	// datagramsAtOnce is how many a queue pair sends before others have their turn.
	datagramsAtOnce = 256
	// maxDatagramPeers limits the devices that this one has links to, and those that have links to it.
	maxDatagramPeers = 1024
)

// datagrams are those of a device's UD queue pairs, over shared memory. They go from device to device:
// a device makes a link to each that one of its queue pairs sends to, at the first datagram, and only
// sends there. What the others send comes by the links that they have made. So a datagram goes to whoever
// has the door of its destination, and nobody can have another's.
type datagrams struct {
	dev    *StreamDevice
	net    MemoryNetwork
	engine *local.Device
	door   Acceptor // nil: there has been no UD queue pair
	again  timer    // lets peers in again after the system had no room for one
	to     map[datagramPlace]*datagramLink
	uses   uint64
	from   *HalfOpen[*datagramLink]
	find   func(verbs.QPN) *local.DatagramQP
}

// datagramPlace tells devices apart.
type datagramPlace struct {
	addr netip.Addr
	slot int
}

func newDatagrams(d *StreamDevice, net MemoryNetwork, e *local.Device) *datagrams {
	u := &datagrams{dev: d, net: net, engine: e, to: make(map[datagramPlace]*datagramLink), from: NewHalfOpen[*datagramLink](maxDatagramPeers)}
	u.again.fire = func() { u.door.Watch(true) }
	u.find = func(n verbs.QPN) *local.DatagramQP {
		if q, ok := d.qps[n].(*datagramQP); ok {
			return q.engine
		}
		return nil
	}
	return u
}

// open opens the door. A device without UD queue pairs has none.
func (u *datagrams) open() (err error) {
	if u.door != nil {
		return nil
	}
	if u.door, err = u.net.Listen(netip.AddrPortFrom(u.dev.meet.addr, uint16(datagramPort+u.dev.meet.slot)), maxDatagramPeers); err == nil {
		u.door.Own(u)
	}
	return err
}

// accept lets peers in. With too many, the address that has the most links loses its oldest.
func (u *datagrams) accept() {
	d := u.dev
	for range acceptsAtOnce {
		link, err := u.door.Accept()
		switch {
		case errors.Is(err, ErrAgain):
			return
		case err != nil:
			d.links.noRoom++
			if oldest, ok := u.from.Oldest(); ok {
				oldest.end()
				continue
			}
			u.door.Watch(false)
			d.timers.set(&u.again, d.passTime()+acceptPause)
			d.wakeForTimer()
			return
		}
		l := u.newLink(link.(MemoryLink))
		l.place.addr = link.PeerAddr().Addr()
		u.from.Add(l.place.addr, l)
		if l.handle(); u.from.Full() {
			oldest, _ := u.from.Oldest()
			oldest.end()
		}
	}
}

// link returns the link to the device of a queue pair at an address; nil: there is no such device.
func (u *datagrams) link(addr netip.Addr, qpn verbs.QPN) *datagramLink {
	d := u.dev
	at := datagramPlace{addr, int(qpn >> (24 - d.meet.bits))}
	u.uses++
	if l := u.to[at]; l != nil {
		l.used = u.uses
		return l
	}
	if len(u.to) == maxDatagramPeers {
		u.forgetOne()
	}
	link, err := u.net.Dial(u.door.Addr(), netip.AddrPortFrom(addr, uint16(datagramPort+at.slot)), 0)
	if err != nil {
		return nil // the system has no room for one more
	}
	if err := link.Connected(); err != nil && !errors.Is(err, ErrAgain) {
		link.Close(true)
		return nil
	}
	l := u.newLink(link.(MemoryLink))
	l.out, l.place, l.used = true, at, u.uses
	u.to[at] = l
	return l
}

// forgetOne ends the link that no datagram has gone by for longest.
func (u *datagrams) forgetOne() {
	var oldest *datagramLink
	for _, l := range u.to {
		if oldest == nil || l.used < oldest.used {
			oldest = l
		}
	}
	oldest.end()
}

func (u *datagrams) newLink(link MemoryLink) *datagramLink {
	l := &datagramLink{all: u, link: link}
	l.limit.fire = l.stall
	link.Own(l)
	return l
}

// datagramLink carries datagrams one way, to another device or from it.
type datagramLink struct {
	all     *datagrams
	link    MemoryLink
	out     bool
	place   datagramPlace // of the other device; only its address is known of one that sends
	peer    *local.Peer   // nil: the other side has not said hello
	used    uint64
	waiting []*datagramQP // for room, or for the other side
	stalled bool          // they have waited for too long: what finds no room is dropped
	limit   timer         // of the wait
}

// handle does what there is to do when the other side has stirred.
func (l *datagramLink) handle() {
	u, d := l.all, l.all.dev
	if l.peer == nil {
		err := l.link.Connected()
		if errors.Is(err, ErrAgain) {
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
		_, moved, wake, err = u.engine.ReceiveDatagrams(l.peer, ib.GIDFromAddr(l.place.addr), ib.GIDFromAddr(d.meet.addr), memoryTurn, u.find)
		d.moved(moved)
		if wake {
			l.link.Ring()
		}
	}
	d.mu.counted = true
	if err != nil {
		u.engine.Counters.Lost++
	}
	if err != nil || ended && moved == 0 {
		l.end()
		return
	}
	l.resume()
	if ended || moved >= memoryTurn {
		l.more() // nobody else will say that there is something
	}
}

// more has the next pass look at the link, and makes sure that there is one.
func (l *datagramLink) more() {
	l.link.Again()
	l.all.dev.wakeBy(l.all.dev.passTime())
}

// wait has a queue pair wait for room.
func (l *datagramLink) wait(q *datagramQP) {
	d := l.all.dev
	l.waiting = append(l.waiting, q)
	q.waits = l
	if l.peer != nil && !l.peer.Await(true) {
		l.more() // there is room now
	}
	if l.limit.index == 0 {
		d.timers.set(&l.limit, d.passTime()+datagramPatience)
		d.wakeForTimer()
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
	l.all.dev.deliver()
}

// moves notes that the other side takes datagrams.
func (l *datagramLink) moves() {
	l.stalled = false
	l.all.dev.timers.stop(&l.limit)
}

// end closes the link. The datagrams that have waited for longest are dropped. Those behind them make
// another link, if somebody is there.
func (l *datagramLink) end() {
	u := l.all
	if l.out {
		delete(u.to, l.place)
	} else {
		u.from.Remove(l.place.addr, l)
	}
	u.dev.timers.stop(&l.limit)
	l.link.Close(true)
	for _, q := range l.waiting {
		if _, _, ok := q.engine.Next(); ok {
			q.engine.Drop(local.DropNobody)
		}
	}
	l.resume()
	u.dev.deliver()
}
