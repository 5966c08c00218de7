// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// protocol is how devices of one kind make connections. endpoint is its part of one id: the id's state and
// the operations on it. Both are called with the manager's lock held unless a
// method says otherwise, so nothing here blocks. Outcomes are reported by methods of ID and
// manager.
type protocol interface {
	// run starts receiving, once the manager is complete.
	run()
	// newEndpoint returns the endpoint of an id that the program has made.
	newEndpoint(id *ID) endpoint
	// connects reports whether the protocol connects queue pairs of a type.
	connects(t verbs.QPType) bool
	// goodbye ends everything. The function that it returns tells the peers, without waiting for
	// any. It is called without the lock, because the device may be busy.
	goodbye() (say func())
	// flush sends due datagrams and delivers events. It is called before the lock is released.
	flush()
	// idle reports whether no connection is left, not even in time wait.
	idle() bool
	close()
}

type endpoint interface {
	// resolveAddr finds out whether and how id.peer can be reached. zone is the peer's, or empty.
	resolveAddr(zone string) (query, error)
	// resolveRoute finds the path there.
	resolveRoute() (query, error)
	// join finds out how to send to g.group, and makes the device receive from the group. The
	// result is in g once the query has ended.
	join(g *membership) (query, error)
	// leave undoes join, also while its query is running, whose context has ended by then.
	leave(g *membership)

	// claim reserves the id's port among the processes of the address. It may wait, and is called
	// without the lock.
	claim() error
	// listen accepts requests to the claimed port. It releases the port if it fails.
	listen(backlog int) error
	unlisten()
	// connect requests a connection, or a datagram service, from id.peer.
	connect(p *ConnParam) error
	accept(p *ConnParam) error
	reject(private []byte) error
	// ready completes the active side, once its queue pair can send.
	ready() error
	// established: data arrived before the peer's last message did.
	established() error
	// agreed returns the parameters agreed on with the peer so far.
	agreed() ConnParam
	disconnect() error
	// broken: the queue pair has failed. The endpoint ends the connection, and reports the end.
	broken()
	// release drops a connection in any state, and ends it if it has not ended.
	release()
	// attr returns the attributes that the id's queue pair needs for its next state.
	attr(next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error)
	// limits returns how many bytes of private data Connect, Accept and Reject have room for.
	limits() (connect, accept, reject int)
}

// query asks others and waits for their answer, such as the subnet administrator for a path record.
// It runs in a goroutine of its own and without the lock, and returns soon after ctx has ended: the
// id's time for it is over, or the id or the device is closed. Until it has returned, only release
// is called on an endpoint that resolves, so the query may change the endpoint. nil stands for an
// answer that is already known.
type query func(ctx context.Context) error

// membership is an id's membership in a multicast group.
type membership struct {
	group   netip.Addr
	to      verbs.AHAttr // how to send to it
	qkey    verbs.QKey
	joined  bool
	cancel  context.CancelFunc // cancels the query; nil: there is none
	counted bool               // by subnet, whose lock covers it
	stream  driver.Stream      // of devices that join by one

	sendOnly bool // the id's queue pair receives nothing from it
}
