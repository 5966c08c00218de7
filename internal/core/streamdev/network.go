// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Network connects a [Device] to its peers. Dial, Listen, Ready and the methods of the values that they
// return are called with the device's lock held, and do not block.
type Network interface {
	softdev.PortState
	// StopFollowing ends the reports that Follow began.
	StopFollowing()
	// Resolve checks an address vector.
	Resolve(attr *verbs.AHAttr) error
	// Proposal returns the parameters that the device proposes in the set-up of streams; MSS is filled in.
	Proposal() rdmap.Proposal

	// Arriving reports whether peers are setting up links that no Acceptor has yet.
	Arriving() bool
	// SetupTime is the minimum time that work requests wait for a link, whatever their queue pair's
	// retries say.
	SetupTime() time.Duration

	Dial(from, to netip.AddrPort, tos uint8) (Link, error)
	Listen(at netip.AddrPort, backlog int) (Acceptor, error)

	// Ready calls f for each link and acceptor that is ready, and returns their number.
	Ready(f func(owner any, read, write bool)) int
	// Wait blocks until Ready has something to report, the deadline passes or Wake is
	// called. An error means that the network is closed.
	Wait() error
	SetDeadline(t time.Time)
	Wake()
	Close() error
}

// Acceptor accepts links.
type Acceptor interface {
	// Own sets the owner that Ready reports it to.
	Own(owner any)
	// Accept returns the next link from a peer, or ErrAgain. Another error means that the system
	// has no room for the link, which waits.
	Accept() (Link, error)
	// Watch sets whether Ready reports it, as it does at first.
	Watch(on bool)
	Addr() netip.AddrPort
	Close() error
}

// Link is a stream of bytes to a peer.
type Link interface {
	Own(owner any)
	// Watch sets the events that Ready reports: that the link can be read, and that it can be written.
	Watch(read, write bool)
	// Connected returns ErrAgain while the link is being established, and then why it could not be.
	Connected() error
	// Starting reports whether the link is still being set up although the peer may have answered, as
	// with TLS and SCTP, or the peer's device has not seen the request, as between processes of one host.
	Starting() bool
	// Read fills pieces one after the other with bytes that have arrived. ErrAgain means that nothing has,
	// io.EOF that nothing follows.
	Read(pieces [][]byte) (int, error)
	// Write sends as much of pieces as fits. ErrAgain means that nothing does.
	Write(pieces [][]byte) (int, error)
	// Shutdown ends the sending direction.
	Shutdown()
	// Close closes the link. abort drops the bytes that have not arrived, and tells the peer so.
	Close(abort bool)
	// Silent reports whether the peer has acknowledged nothing for so long that it is gone. Links
	// that detect that themselves, and break, return false.
	Silent() bool
	// Ended reports whether the peer has ended the link, or it broke, whatever is left to read.
	Ended() bool
	MSS() int
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
}

// Holder is a Link whose peer can be told that its request waits.
type Holder interface {
	// Hold tells the peer that its request has been seen, and waits for a queue pair that is not ready. The peer's
	// Starting then returns false.
	Hold()
}
