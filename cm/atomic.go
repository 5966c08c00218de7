// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// FetchAdd adds a number to 8 bytes of the peer's memory, modulo 2^64, and returns their former value
// (IBTA 9.4.5, RFC 7306 section 5). It is atomic among all operations of the peer's device and, where
// [verbs.DeviceAttr] says so, against the peer's own processor.
//
// The 8 bytes are a number in the byte order of the peer's host. Their address must be a multiple of 8,
// and the region must allow [verbs.RemoteAtomic]. A refused operation breaks the connection.
//
// If ctx ends first, the number may have been added or not.
func (c *Conn) FetchAdd(ctx context.Context, remote verbs.Remote, add uint64) (old uint64, err error) {
	return c.atomic(ctx, "fetch_add", &verbs.SendWR{Op: verbs.OpFetchAdd, Remote: remote, Add: add})
}

// CompareSwap replaces 8 bytes of the peer's memory by swap if they are equal to compare, and returns their
// former value: compare, if they were replaced. Otherwise it is as [Conn.FetchAdd].
func (c *Conn) CompareSwap(ctx context.Context, remote verbs.Remote, compare, swap uint64) (old uint64, err error) {
	return c.atomic(ctx, "compare_swap", &verbs.SendWR{Op: verbs.OpCompareSwap, Remote: remote, Compare: compare,
		Swap: swap})
}

// wordSize is how many bytes atomic operations work on.
const wordSize = 8

func (c *Conn) atomic(ctx context.Context, op string, wr *verbs.SendWR) (old uint64, err error) {
	q := c.queues
	if q == nil {
		return 0, errSetup(op)
	}
	b, err := q.pool.Get(wordSize)
	if err != nil {
		return 0, err
	}
	wr.SGL = []verbs.SGE{b.SGE(wordSize)}
	o := newOp(b)
	o.fetches = true
	_, err = q.await(ctx, wr, o)
	if err != nil {
		return 0, c.explain(op, unaligned(wr, err))
	}
	return o.old, nil
}

// fetch keeps the value that an atomic operation has returned.
func (o *op) fetch() {
	if o.fetches {
		o.old = binary.NativeEndian.Uint64(o.buf.Bytes())
	}
}

// unaligned adds the reason to the error of an atomic operation that was refused because its remote
// address is not a multiple of eight (IBTA 9.4.5, annex A19; RFC 7306 section 5). The status alone
// only says that the request was invalid.
func unaligned(wr *verbs.SendWR, err error) error {
	switch wr.Op {
	case verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpAtomicWrite:
	default:
		return err
	}
	if wr.Remote.Addr%8 == 0 || !errors.Is(err, verbs.StatusRemoteInvalidRequestError.Err()) {
		return err
	}
	return fmt.Errorf("%w: %v at the remote address %#x, which has to be a multiple of 8", err, wr.Op, wr.Remote.Addr)
}
