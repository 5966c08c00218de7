// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/ramjet-rdma/ramjet/verbs"

// Accesses follows the one-sided operations of peers while they are carried out, and datagrams that are dropped:
// package verbs/driver has the same. It is called with the device's lock held.
type Accesses interface {
	// Begin is called before the first byte of memory b is touched.
	Begin(qpn verbs.QPN, op verbs.SendOp, remote verbs.Remote, b []byte)
	// Extend adds memory to the WRITE that has begun on a queue pair, before it is touched.
	Extend(qpn verbs.QPN, b []byte)
	// Last is called before the last bytes of a WRITE are written, unless Begin was just before.
	Last(qpn verbs.QPN)
	// End is called after the operation on b, of which nil stands for the WRITE that has begun. done is false if it
	// has changed nothing, as a compare-and-swap that did not swap.
	End(qpn verbs.QPN, op verbs.SendOp, b []byte, done bool)
	// TooLong is called when a datagram of n bytes does not fit behind a GRH into the oldest receive, which takes room.
	TooLong(qpn verbs.QPN, n int, room uint64)
}

// Accesses returns the follower of peers' operations; nil: there is none.
func (t *Table) Accesses() Accesses { return t.accesses }

// WatchAccesses has a follow the operations of peers from now on.
func (t *Table) WatchAccesses(a Accesses) { t.accesses = a }
