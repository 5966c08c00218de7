// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// end is a device with the objects that queue pairs need.
type end struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qps []*verbs.QP
}

func newEnd(t *testing.T, n int) *end {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("iWARP over TCP needs Linux")
	}
	e := &end{qps: make([]*verbs.QP, n)}
	e.dev, _ = loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) })
	var err error
	if e.pd, err = e.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = e.dev.CreateCQ(16, nil); err != nil {
		t.Fatal(err)
	}
	return e
}

// create has queue pair i be the one of a connection.
func (e *end) create(i int, id *cm.ID) (err error) {
	e.qps[i], err = id.CreateQP(e.pd, verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 1}})
	return err
}

// Connections come in the order of their requests, and no other peer's is among them.
func TestOrder(t *testing.T) {
	const n = 4
	client, server := newEnd(t, n), newEnd(t, n)
	if !ByAddress(client.dev) {
		t.Fatal("iWARP has no numbers of queue pairs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := cm.Listen(ctx, server.dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		conns []*cm.Conn
		err   error
	}
	accepted := make(chan result, 1)
	go func() {
		conns, err := Accept(ctx, l, n, 1, server.create)
		accepted <- result{conns, err}
	}()
	for _, private := range []string{"", "a stranger", "\x00\x00\x00\x04"} { // the last one is one too many
		_, err := cm.Dial(ctx, client.dev, l.Addr().String(), cm.WithPrivateData([]byte(private)))
		if !errors.As(err, new(*cm.RejectError)) {
			t.Errorf("%q: %v", private, err)
		}
	}
	conns, err := Dial(ctx, client.dev, l.Addr(), n, 1, client.create)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(conns)
	r := <-accepted
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer closeAll(r.conns)
	for i := range n {
		if err := server.qps[i].PostRecv(&verbs.RecvWR{ID: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := client.qps[i].PostSend(&verbs.SendWR{Op: verbs.OpSend}); err != nil {
			t.Fatal(err)
		}
		var wc [1]verbs.WC
		if _, err := server.cq.Wait(ctx, wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess ||
			wc[0].ID != uint64(i) {
			t.Fatalf("of connection %d: %+v, %v", i, wc[0], err)
		}
	}
}

// If one connection fails, none is left.
func TestFailure(t *testing.T) {
	client, server := newEnd(t, 2), newEnd(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := cm.Listen(ctx, server.dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	oops := errors.New("no more")
	once := func(e *end) Create {
		return func(i int, id *cm.ID) error {
			if i > 0 {
				return oops
			}
			return e.create(i, id)
		}
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := Accept(ctx, l, 2, 1, once(server))
		accepted <- err
	}()
	if _, err := Dial(ctx, client.dev, l.Addr(), 2, 1, client.create); err == nil {
		t.Error("the second connection was made")
	}
	if err := <-accepted; !errors.Is(err, oops) {
		t.Errorf("accepting: %v", err)
	}
	for _, e := range []*end{client, server} {
		if err := e.qps[0].PostSend(&verbs.SendWR{Op: verbs.OpSend}); err == nil {
			t.Error("the first connection is left")
		}
	}
}
