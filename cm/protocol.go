// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// protocol is how devices of one kind make connections. The manager calls it with its lock
// held, so nothing here blocks; what comes of a call is told by the calls of manager.
//
// The protocol keeps what it knows of a connection in ID.ib or ID.stream.
type protocol interface {
	// run starts what receives, once the manager is complete.
	run()
	// claim reserves the id's port among the processes of the address; alone of all calls it may
	// wait, and it is made without the lock.
	claim(id *ID) error
	// listen takes requests to the claimed port; it gives the port back if it fails.
	listen(id *ID, backlog int) error
	unlisten(id *ID)
	// connect asks id.peer for a connection, or for a datagram service.
	connect(id *ID, p *ConnParam) error
	accept(id *ID, p *ConnParam) error
	reject(id *ID, private []byte) error
	// ready ends the active side's part, once its queue pair can send.
	ready(id *ID) error
	// established: data came before the peer's last word did.
	established(id *ID) error
	disconnect(id *ID) error
	// release forgets a connection in any state, and brings it to an end if it has none.
	release(id *ID)
	// attr returns what the id's queue pair needs for its next state.
	attr(id *ID, next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error)
	// connects reports whether it makes connections of queue pairs of a type.
	connects(t verbs.QPType) bool
	// limits returns how many bytes of private data Connect, Accept and Reject have room for.
	limits(id *ID) (connect, accept, reject int)

	// flush sends and tells what is due; it is called before the lock is given up.
	flush()
	// idle says whether no connection is left, nor one's time wait.
	idle() bool
	close()
}

// gsi is the device's way to send and receive management datagrams: a *verbs.GSI.
type gsi interface {
	Send(to verbs.AHAttr, mad []byte) error
	Recv(ctx context.Context, mad []byte) (n int, from verbs.AHAttr, err error)
	Refused(ctx context.Context, to verbs.AHAttr) error
	Claim(service, mask uint64) error
	Release(service uint64)
	IDs() (base, mask uint32)
	Close() error
}
