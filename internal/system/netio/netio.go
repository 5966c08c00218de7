// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// MaxPayload is the maximum number of bytes of one Train, and so of one datagram: 65,535 less the
// IPv4 and UDP headers. The same limit serves IPv6.
const MaxPayload = 65507

// ErrAgain is returned by [Socket.Send] if the system cannot take more now. The train is unchanged;
// send it again after [Socket.WaitWritable], or later.
var ErrAgain = errors.New("netio: socket buffer is full")

var errFamily = errors.New("netio: the address and the socket are not both IPv4 or both IPv6")

// Options tune a socket. The zero value suits most.
type Options struct {
	// RecvBuffer and SendBuffer are the sizes to request for the socket's buffers, in bytes. Zero
	// requests 8 MiB. The system may grant less without an error: [Socket.Features] has the granted
	// sizes.
	RecvBuffer, SendBuffer int

	// DualStack has a socket on the IPv6 wildcard address send to IPv4 addresses too, and receive from them.
	DualStack bool

	// Fragments leaves it to the system whether a datagram longer than the path's MTU goes in fragments.
	Fragments bool

	// Plain avoids GSO, GRO and batched calls, as on systems that have none. It is for tests.
	Plain bool
}

// Features are the features that the system granted a socket.
type Features struct {
	GSO         bool // a train leaves in one system call
	GRO         bool // trains may arrive whole
	MaxSegments int  // maximum number of datagrams in a train
	// SO_RCVBUF in bytes; on Linux this counts the kernel's own overhead too, so that about half of it is payload
	RecvBuffer int
	SendBuffer int // SO_SNDBUF in bytes, counted likewise
	Batch      int // maximum number of Datagrams that one Recv returns
}

// Datagrams is the contents of one receive buffer: one datagram, or several of equal size that
// arrived together from one sender.
type Datagrams struct {
	From netip.AddrPort // never IPv4-mapped
	// local or group address it was sent to; invalid if unknown (a wildcard socket without RecvHeaders)
	To          netip.Addr
	Data        []byte // payloads one after another; valid until the next Recv
	SegmentSize int    // size of each payload but the last, which may be shorter; len(Data) if there is only one
	// IPv4 TTL and TOS, or IPv6 hop limit and traffic class; only if HasHeaders, and TOS after RecvTOS
	TTL, TOS   uint8
	HasHeaders bool // To, TTL and TOS come from the packet itself, see RecvHeaders
	Truncated  bool // the system cut the datagram short
}

// Len returns the number of datagrams in d.
func (d *Datagrams) Len() int {
	if len(d.Data) <= d.SegmentSize {
		return 1
	}
	return (len(d.Data) + d.SegmentSize - 1) / d.SegmentSize
}

// Socket is an unconnected UDP socket. See the package comment for which goroutine may call what.
type Socket struct {
	local netip.AddrPort
	impl  transport
}

// transport is an implementation of a socket: the batched one of Linux, and the plain one on
// package net.
type transport interface {
	features() Features
	send(t *Train) error
	recv(into []Datagrams) (int, error)
	wait(writable bool) error
	beginWait(writable bool, at *pollwait.Set) bool
	endWait(readable bool)
	unsent() int
	park(d time.Duration)
	canPark() bool
	setDeadline(t time.Time)
	wake()
	recvHeaders(on bool) error
	recvTOS() error
	free()
	joinGroup(group netip.Addr) error
	leaveGroup(group netip.Addr) error
	close() error
}

// Listen opens a socket bound to local. Port 0 lets the system choose one. Fragmentation is off, unless
// an option leaves it to the system: on IPv4 the identification is 0, and counts up from 0 within one train. A datagram
// longer than the path's MTU is refused.
//
// Errors wrap the system's: syscall.EADDRNOTAVAIL if the address is not this host's,
// syscall.EADDRINUSE if the port is taken.
func Listen(local netip.AddrPort, o Options) (*Socket, error) {
	local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	if !local.Addr().IsValid() {
		return nil, fmt.Errorf("netio: listen: no local address given")
	}
	if o.RecvBuffer == 0 {
		o.RecvBuffer = defaultBuffer
	}
	if o.SendBuffer == 0 {
		o.SendBuffer = defaultBuffer
	}
	open := listenBatched
	if o.Plain {
		open = listenPlain
	}
	impl, bound, err := open(local, o)
	if err != nil {
		return nil, fmt.Errorf("netio: listen on UDP %v: %w", local, err)
	}
	return &Socket{local: bound, impl: impl}, nil
}

// defaultBuffer is the size requested by default: enough for a window of a few MiB. Systems that
// allow less clamp it.
const defaultBuffer = 8 << 20

// LocalAddr returns the address that the socket is bound to.
func (s *Socket) LocalAddr() netip.AddrPort { return s.local }

// Features returns the features that the system granted.
func (s *Socket) Features() Features { return s.impl.features() }

// NewTrain returns an empty train with as many segments as this socket sends in one call. A zero
// Train works too, with 64.
func (s *Socket) NewTrain() *Train { return &Train{limit: s.impl.features().MaxSegments} }

// Send sends a train, in one system call if the system can, without blocking. A nil error means
// that the system took all of it. On any error the train keeps the datagrams that were not sent (all
// of them, unless the system has no GSO), and sending it again continues from there.
//
// [ErrAgain] means that the socket's buffer is full. Other errors wrap the system's, for example
// syscall.EMSGSIZE (longer than the path's MTU), EPERM (a firewall), ENETUNREACH, EHOSTUNREACH. On
// a closed socket the error is net.ErrClosed.
func (s *Socket) Send(t *Train) error { return s.impl.send(t) }

// Recv takes received datagrams, without blocking, and returns how many elements of into it filled.
// None and no error mean that nothing was there. It fills at most Features.Batch elements. Only a
// Recv that returned none guarantees that nothing is left. The Data of all earlier calls become
// invalid.
func (s *Socket) Recv(into []Datagrams) (int, error) { return s.impl.recv(into) }

// Wait blocks until something can be received, the deadline passes, or Wake is called, and then
// returns nil. The caller checks its own clock and Recv for the reason; there may be nothing. On a
// closed socket it returns net.ErrClosed.
func (s *Socket) Wait() error { return s.impl.wait(false) }

// WaitWritable is Wait that also returns when the system can take more to send. Use it only after
// [ErrAgain]: a socket can nearly always take more.
func (s *Socket) WaitWritable() error { return s.impl.wait(true) }

// BeginWait is Wait, or WaitWritable, up to where it sleeps: a thread then does so by itself, with
// poll(2), at the set that BeginWait fills. Until EndWait no other goroutine waits. BeginWait returns false if there
// is no need to sleep.
func (s *Socket) BeginWait(writable bool, at *pollwait.Set) bool {
	return s.impl.beginWait(writable, at)
}

// EndWait ends BeginWait's wait. readable says that Event was found readable; otherwise it stays so if it is.
func (s *Socket) EndWait(readable bool) { s.impl.endWait(readable) }

// Pollable reports whether the socket has BeginWait.
func (s *Socket) Pollable() bool { return s.impl.canPark() }

// Unsent returns how many bytes of the system's memory wait to leave this host, in a slow interface's queue. It
// returns 0 where the system does not report that.
func (s *Socket) Unsent() int { return s.impl.unsent() }

// Park blocks until something can be received, or for the given time. Unlike Wait, any number of
// goroutines may call it at once. Neither a deadline nor Wake ends it. Sockets without it return at once.
func (s *Socket) Park(d time.Duration) { s.impl.park(d) }

// CanPark reports whether the socket has Park.
func (s *Socket) CanPark() bool { return s.impl.canPark() }

// SetDeadline sets the time at which the current and all later Waits return. The zero time means
// never. A deadline stays set when it has passed.
func (s *Socket) SetDeadline(t time.Time) { s.impl.setDeadline(t) }

// Wake makes the current Wait return, or the next one if there is none. Several wake-ups before a
// Wait count as one.
func (s *Socket) Wake() { s.impl.wake() }

// RecvHeaders requests the addresses, TTL and TOS of datagrams that arrive from now on, which a UD
// receive needs (the GRH of IBTA vol 1, 8.3), and which cost some time on each Recv. Systems without
// them return errors.ErrUnsupported.
func (s *Socket) RecvHeaders(on bool) error { return s.impl.recvHeaders(on) }

// RecvTOS requests the TOS of datagrams that arrive from now on at the socket's own address. Its ECN
// field says whether they met congestion. Systems without it return errors.ErrUnsupported.
func (s *Socket) RecvTOS() error { return s.impl.recvTOS() }

// JoinGroup makes Recv return datagrams to a multicast group and the socket's own port that arrive on
// the interface of its local address. Joining twice is harmless.
func (s *Socket) JoinGroup(group netip.Addr) error {
	if !group.IsMulticast() {
		return fmt.Errorf("netio: join group: %v is not a multicast address", group)
	}
	if err := s.impl.joinGroup(group.Unmap()); err != nil {
		return fmt.Errorf("netio: join group %v from %v: %w", group, s.local, err)
	}
	return nil
}

// LeaveGroup undoes JoinGroup. Leaving a group that was not joined is harmless.
func (s *Socket) LeaveGroup(group netip.Addr) error {
	if err := s.impl.leaveGroup(group.Unmap()); err != nil {
		return fmt.Errorf("netio: leave group %v from %v: %w", group, s.local, err)
	}
	return nil
}

// Close frees the socket. A pending Wait returns net.ErrClosed. Closing twice is harmless.
//
// The numbers of its descriptors are freed by Free, or with the memory of the Socket.
func (s *Socket) Close() error { return s.impl.close() }

// Free frees the numbers of a closed socket's descriptors, which pending calls may still use. So none is
// pending, and no thread sleeps at a set of BeginWait. Calls that follow find the socket closed.
func (s *Socket) Free() { s.impl.free() }
