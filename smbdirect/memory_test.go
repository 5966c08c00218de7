// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"bytes"
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func alloc(t testing.TB, c *smbdirect.Conn, n int) *smbdirect.Memory {
	t.Helper()
	m, err := c.AllocMemory(n)
	ok(t, err)
	return m
}

func expose(t testing.TB, m *smbdirect.Memory, off, n int, writable bool) *smbdirect.Window {
	t.Helper()
	w, err := m.Expose(within(t), off, n, writable)
	ok(t, err)
	return w
}

// A server reads and writes memory that a client exposes, in several pieces too, and no other.
func TestChannel(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, b := pair(t, server, client, smbdirect.Options{}, smbdirect.Options{})
		const size = 300000
		theirs, ours := alloc(t, b, size), alloc(t, a, size)
		copy(theirs.Bytes(), message(1, size))
		var ds []wire.Descriptor
		for _, part := range [][2]int{{200000, 1000}, {0, 100000}, {100000, 7}} {
			w := expose(t, theirs, part[0], part[1], false)
			defer w.Close()
			ds = append(ds, w.Descriptor())
		}
		ok(t, a.ReadRemote(within(t), ours, 101000, ds))
		want := append(bytes.Clone(theirs.Bytes()[200000:201000]), theirs.Bytes()[:100000]...)
		if !bytes.Equal(ours.Bytes()[:101000], want) {
			t.Error("other bytes were read")
		}
		w := expose(t, theirs, 10, 1000, true)
		before := bytes.Clone(theirs.Bytes())
		ok(t, a.WriteRemote(within(t), ours, 999, []wire.Descriptor{w.Descriptor()}))
		ok(t, a.WriteMessageInvalidate(within(t), []byte("done"), w.Descriptor().Token))
		receives(t, b, []byte("done"))
		copy(before[10:], ours.Bytes()[:999])
		if !bytes.Equal(theirs.Bytes(), before) {
			t.Error("other bytes were written")
		}
		ok(t, w.Close())
		// Over iWARP the writer does not learn by itself that a WRITE was refused.
		err := a.WriteRemote(within(t), ours, 1, []wire.Descriptor{w.Descriptor()})
		if err == nil {
			err = a.ReadRemote(within(t), ours, 1, []wire.Descriptor{w.Descriptor()})
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write to what was invalidated: %v", err)
		}
	})
}

// Transfers that do not fit are refused before anything is posted.
func TestTransferBounds(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, b := pair(t, server, client, smbdirect.Options{MaxReadWriteSize: 1000}, smbdirect.Options{})
		if b.MaxReadWrite() != 1000 {
			t.Errorf("the client knows of %d bytes", b.MaxReadWrite())
		}
		theirs, ours := alloc(t, b, 2000), alloc(t, a, 2000)
		w := expose(t, theirs, 0, 100, false)
		ds := []wire.Descriptor{w.Descriptor()}
		for _, n := range []int{0, -1, 101, 1001, math.MaxInt} {
			if err := a.ReadRemote(within(t), ours, n, ds); err == nil {
				t.Errorf("%d bytes were read", n)
			}
		}
		if err := a.ReadRemote(within(t), theirs, 10, ds); err == nil {
			t.Error("memory of another connection was used")
		}
		if err := a.ReadRemote(within(t), ours, 1, nil); err == nil {
			t.Error("nothing was read from")
		}
		for _, part := range [][2]int{{-1, 1}, {0, 0}, {0, 2001}, {2000, 1}, {1, math.MaxInt}} {
			if _, err := theirs.Expose(within(t), part[0], part[1], true); err == nil {
				t.Errorf("%d bytes at %d were exposed", part[1], part[0])
			}
		}
		ok(t, a.ReadRemote(within(t), ours, 100, ds))
		ok(t, w.Close())
		ok(t, theirs.Close())
		ok(t, theirs.Close()) // a second time
		// Memory that is left is freed with the connection.
		more := alloc(t, b, 100)
		left := expose(t, more, 0, 100, true)
		if err := more.Close(); err == nil {
			t.Error("memory with a window was freed")
		}
		ok(t, b.Close())
		ok(t, left.Close())
		ok(t, more.Close())
	})
}
