// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Network is the way of a StreamDevice to its peers. Dial, Listen, Ready and what they
// return are called with the device's lock held, and do not block.
type Network interface {
	// Attr returns what verbs tells of the port, with its GID table.
	Attr() (verbs.PortAttr, []verbs.GIDEntry)
	// Follow has raise called for each event of the port, by another goroutine, until StopFollowing
	// returns. The device's lock is held in neither.
	Follow(raise func(verbs.EventType))
	StopFollowing()
	// Resolve checks an address vector.
	Resolve(attr *verbs.AHAttr) error
	// Wishes are what the device brings to the set-up of streams; MSS is filled in.
	Wishes() rdmap.Wishes

	// Arriving says that peers are setting links up that no Acceptor has yet.
	Arriving() bool
	// SetupTime is how long work requests wait for a link at least, whatever their queue pair's
	// retries say.
	SetupTime() time.Duration

	Dial(from, to netip.AddrPort, tos uint8) (Link, error)
	Listen(at netip.AddrPort, backlog int) (Acceptor, error)

	// Ready calls f for each link and acceptor on which something can be done, and returns
	// how many they were.
	Ready(f func(owner any, read, write bool)) int
	// Wait blocks until Ready has something to report, the deadline passes or Wake is
	// called. An error means that the network is closed.
	Wait() error
	SetDeadline(t time.Time)
	Wake()
	Close() error
}

// Acceptor takes links.
type Acceptor interface {
	// Own says whom Ready reports it to.
	Own(owner any)
	// Accept returns the next link that a peer has made, or ErrAgain. Another error says that
	// the system has no room for it: the link waits.
	Accept() (Link, error)
	// Watch says whether Ready reports it, as it does from the beginning.
	Watch(on bool)
	Addr() netip.AddrPort
	Close() error
}

// Link is a stream of bytes to a peer.
type Link interface {
	Own(owner any)
	// Watch says what Ready reports: that bytes can be read, and that they can be written.
	Watch(read, write bool)
	// Connected returns ErrAgain while the link is being made, and why it could not be.
	Connected() error
	// Starting says that the link is still being set up although the peer may have answered, as
	// with TLS and SCTP.
	Starting() bool
	// Read fills pieces one after the other, with what is there. ErrAgain: nothing is;
	// io.EOF: nothing follows.
	Read(pieces [][]byte) (int, error)
	// Write sends pieces, as much as fits. ErrAgain: nothing does.
	Write(pieces [][]byte) (int, error)
	// Shutdown says that nothing more is written.
	Shutdown()
	// Close ends the link; abort drops what has not arrived and tells the peer so.
	Close(abort bool)
	// Silent says that the peer has acknowledged nothing for so long that it is gone. Links that
	// find that out by themselves, and break, say false.
	Silent() bool
	// Ended says that the peer has ended the link, or that it broke, whatever is left to be read.
	Ended() bool
	MSS() int
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
}
