// SPDX-License-Identifier: Apache-2.0

package shm

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

const (
	// maxArriving is how many peers may have connected to a listener without having sent a hello. With more the
	// first of them is turned away.
	maxArriving = 256
	// acceptsAtOnce is how many peers are let in, in one go.
	acceptsAtOnce = 64
	// anyTries is how many free ports are tried.
	anyTries = 64
)

// acceptor is an open listener.
type acceptor struct {
	net      *network
	listener *shmem.Listener // nil: closed
	owner    any
	at       netip.AddrPort
	arriving []*link // of which nothing is known yet
	come     []*link
	failed   error // the system has no room for the next one
	paused   bool
}

// anyPort returns a port for programs that do not care which.
func anyPort() uint16 {
	var b [2]byte
	crand.Read(b[:])
	return 49152 + binary.NativeEndian.Uint16(b[:])%16384
}

// Listen opens a listener.
func (n *network) Listen(at netip.AddrPort, backlog int) (streamdev.Acceptor, error) {
	choose, tries := at.Port() == 0, 0
	for {
		if choose {
			at = netip.AddrPortFrom(at.Addr(), anyPort())
		}
		listener, err := n.place.Listen(at.String(), backlog)
		if tries++; choose && errors.Is(err, unix.EADDRINUSE) && tries < anyTries {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listening at %v: %w", at, err)
		}
		a := &acceptor{net: n, listener: listener, at: at}
		if err := n.follow(listener.FD(), a); err != nil {
			listener.Close()
			return nil, err
		}
		n.listeners[a] = struct{}{}
		return a, nil
	}
}

func (a *acceptor) Own(owner any) { a.owner = owner }

// ready lets peers in. A peer is reported when its hello has come.
func (a *acceptor) ready(f func(owner any, read, write bool)) (found int) {
	for range acceptsAtOnce {
		if a.listener == nil || a.failed != nil {
			break
		}
		sock, err := a.listener.Accept()
		switch {
		case err == nil, errors.Is(err, shmem.ErrDescriptors):
			found += a.let(sock, err, f)
			continue
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS),
			errors.Is(err, unix.ENOMEM):
			a.failed = err
		case !errors.Is(err, unix.EAGAIN):
			continue // another user's, or it has gone
		}
		break
	}
	if a.failed == nil {
		return found
	}
	f(a.owner, true, false)
	return found + 1
}

// let makes a link to a peer, whose hello is mostly there already. Nothing but the socket is used for him before.
// full is why there is no room for him, as he is told then.
func (a *acceptor) let(sock *shmem.Socket, full error, f func(owner any, read, write bool)) int {
	l := &link{net: a.net, sock: sock, from: a.at, slot: -1, greets: a, came: pollwait.Now(), failed: full}
	if err := a.net.follow(sock.FD(), l); err != nil {
		a.failed = err
		l.release()
		return 0
	}
	a.arriving = append(a.arriving, l)
	if len(a.arriving) > maxArriving {
		a.arriving[0].release()
		a.arriving = a.arriving[1:]
	}
	l.drain()
	return a.greeted(l, f)
}

// greeted reports a link whose peer's hello has come.
func (a *acceptor) greeted(l *link, f func(owner any, read, write bool)) int {
	if !l.hello && !l.ended {
		return 0
	}
	for i, o := range a.arriving {
		if o == l {
			a.arriving = append(a.arriving[:i], a.arriving[i+1:]...)
			break
		}
	}
	l.greets = nil
	if !l.hello {
		l.release()
		if a.failed == nil {
			return 0
		}
		f(a.owner, true, false)
		return 1
	}
	a.come = append(a.come, l)
	f(a.owner, true, false)
	return 1
}

// Accept returns the next link whose peer's hello has come.
func (a *acceptor) Accept() (streamdev.Link, error) {
	if len(a.come) > 0 {
		l := a.come[0]
		a.come = a.come[1:]
		return l, nil
	}
	err := a.failed
	a.failed = nil
	if err == nil {
		err = softdev.ErrAgain
	}
	return nil, err
}

// Watch says whether peers are let in.
func (a *acceptor) Watch(on bool) {
	if a.listener == nil || on != a.paused {
		return
	}
	a.paused = !on
	if on {
		a.net.follow(a.listener.FD(), a) // cannot fail: it was there before
	} else {
		a.net.unfollow(a.listener.FD())
	}
}

func (a *acceptor) Addr() netip.AddrPort { return a.at }

// Close closes the listener.
func (a *acceptor) Close() error {
	if a.listener == nil || a.net.closed.Load() {
		return nil
	}
	a.net.unfollow(a.listener.FD())
	return a.release()
}

// release frees the acceptor's descriptors and links.
func (a *acceptor) release() error {
	if a.listener == nil {
		return nil
	}
	for _, l := range append(a.arriving, a.come...) {
		if l.owner == nil {
			l.release()
		}
	}
	a.arriving, a.come = nil, nil
	delete(a.net.listeners, a)
	err := a.listener.Close()
	a.listener = nil
	return err
}
