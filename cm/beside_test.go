// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// perfAgent answers Get of performance management with a counter of its device, behind the header
// of the class (IBTA 16.1.1), until it is closed.
func perfAgent(t *testing.T, dev *verbs.Device) *umad.Agent {
	t.Helper()
	a, err := umad.Open(dev, 1, ib.QP1, umad.Spec{Class: mad.ClassPerf, Version: 1,
		Methods: []mad.Method{mad.MethodGet}})
	ok(t, err)
	ctx := t.Context()
	var done sync.WaitGroup
	t.Cleanup(func() { a.Close(); done.Wait() })
	done.Go(func() {
		b := make([]byte, umad.Len)
		for {
			_, from, err := a.Recv(ctx, b)
			if err != nil {
				return
			}
			var h mad.Header
			h.Decode(b)
			h.Method = mad.MethodGetResp
			h.Append(b[:0])
			binary.BigEndian.PutUint64(b[64:], loopback.Counter(t, dev, "rcvd_pkts"))
			if err := a.Send(from, b); err != nil && !errors.Is(err, verbs.ErrQueueFull) &&
				!errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return a
}

// A performance agent and an administrator's client live beside the connection managers of two
// devices: each gets its own datagrams, before, while and after there are connections.
func TestAgentsBesideManager(t *testing.T) {
	da, db := open(t), open(t)
	l := listen(t, db)
	agent := perfAgent(t, db)
	client, err := umad.Open(da, 1, ib.QP1, umad.Spec{Class: mad.ClassPerf, Version: 1})
	ok(t, err)
	defer client.Close()
	gids, err := db.GIDs(1)
	ok(t, err)
	to := umad.Path{AH: verbs.AHAttr{DGID: gids[0].GID}}
	b := make([]byte, umad.Len)
	received := func(low uint32) uint64 {
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet,
			TID: uint64(low)}
		clear(b)
		h.Append(b[:0])
		ok(t, client.Send(to, b))
		_, from, err := client.Recv(within(t), b)
		ok(t, err)
		if h.Decode(b); h.TID != client.Transaction(low) || h.Method != mad.MethodGetResp ||
			from.AH.DGID != to.AH.DGID {
			t.Fatalf("answer %+v from %+v", h, from)
		}
		return binary.BigEndian.Uint64(b[64:])
	}
	before := received(1)
	for i := range 5 {
		in := accept(t, l)
		c, err := cm.Dial(within(t), da, l.Addr().String())
		ok(t, err)
		s := <-in
		ok(t, s.err)
		ok(t, c.Send(within(t), []byte("hello")))
		now := received(uint32(i) + 2)
		if now <= before {
			t.Errorf("%d packets received after %d", now, before)
		}
		before = now
		ok(t, c.Close())
		ok(t, s.c.Close())
	}
	ok(t, agent.Close())
	lost := loopback.Counter(t, db, "dropped_no_agent")
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet}
	clear(b)
	h.Append(b[:0])
	ok(t, client.Send(to, b))
	eventually(t, func() bool { return loopback.Counter(t, db, "dropped_no_agent") > lost },
		"what is for no agent is counted")
	in := accept(t, l)
	c, err := cm.Dial(within(t), da, l.Addr().String())
	ok(t, err)
	ok(t, (<-in).err)
	ok(t, c.Close())
}
