// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// counter registers a number of the server's.
func counter(t *testing.T, server *cm.Conn, v uint64) *verbs.MR {
	t.Helper()
	mr, err := server.PD().AllocMR(64, verbs.LocalWrite|verbs.RemoteAtomic)
	ok(t, err)
	binary.NativeEndian.PutUint64(mr.Bytes()[8:], v)
	return mr
}

func TestAtomics(t *testing.T) {
	client, server := pair(t)
	ctx := within(t)
	const start = 1<<63 + 41
	mr := counter(t, server, start)
	at := mr.Remote().At(8)
	was := func(old uint64, err error) func(want uint64) {
		t.Helper()
		ok(t, err)
		return func(want uint64) {
			t.Helper()
			if old != want {
				t.Errorf("it was %#x, want %#x", old, want)
			}
		}
	}
	was(client.FetchAdd(ctx, at, 1))(start)
	was(client.CompareSwap(ctx, at, start, 7))(start + 1) // unequal: it stays
	was(client.CompareSwap(ctx, at, start+1, 7))(start + 1)
	was(client.FetchAdd(ctx, at, ^uint64(0)))(7) // modulo 2^64
	was(client.FetchAdd(ctx, at, 0))(6)
	mr.Do(func(b []byte) {
		if got := binary.NativeEndian.Uint64(b[8:]); got != 6 {
			t.Errorf("the server has %d, want 6", got)
		}
	})

	const workers, each = 8, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if _, err := client.FetchAdd(ctx, at, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	was(client.FetchAdd(ctx, at, 0))(6 + workers*each)

	ended, end := context.WithCancel(ctx)
	end()
	if _, err := client.FetchAdd(ended, at, 0); err != nil && !errors.Is(err, context.Canceled) { // it may be faster
		t.Errorf("with a context that has ended: %v", err)
	}
	_, err := client.FetchAdd(ctx, at.At(1), 1)
	fails(t, err, verbs.StatusRemoteInvalidRequestError.Err(), "multiple of 8", client.PeerAddr().String())
}
