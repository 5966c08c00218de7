// SPDX-License-Identifier: Apache-2.0

//go:build linux

package programs

import (
	"context"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// useAfterDestroyPost posts to a queue pair that was closed, or that is closed next.
func useAfterDestroyPost(mistake bool) {
	h := open()
	_, b := h.pair(verbs.QPInit{}, nil)
	to := h.region(page)
	wr := &verbs.RecvWR{SGL: []verbs.SGE{all(to)}}
	if !mistake {
		check(b.qp.PostRecv(wr))
	}
	check(b.qp.Close())
	if mistake && b.qp.PostRecv(wr) == nil {
		fail(verbs.ErrBusy)
	}
	h.close()
}

// useAfterDestroyRegister registers memory in a domain that was closed.
func useAfterDestroyRegister(mistake bool) {
	h := open()
	pd := must(h.dev.AllocPD())
	if !mistake {
		check(must(pd.AllocMR(page, access)).Close())
	}
	check(pd.Close())
	if mistake {
		if _, err := pd.AllocMR(page, access); err == nil {
			fail(verbs.ErrBusy)
		}
	}
	h.close()
}

// useAfterDestroyConn sends on a connection that was closed.
func useAfterDestroyConn(mistake bool) {
	h, l, client, server := connected()
	ctx := context.Background()
	if !mistake {
		check(client.Send(ctx, []byte("hello")))
		must(server.Recv(ctx)).Release()
	}
	check(client.Close())
	if mistake && client.Send(ctx, []byte("hello")) == nil {
		fail(verbs.ErrBusy)
	}
	check(server.Close())
	check(l.Close())
	h.close()
}

// connected is a connection by package cm of a device with itself.
func connected() (h *host, l *cm.Listener, client, server *cm.Conn) {
	h = open()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l = must(cm.Listen(ctx, h.dev, ":0"))
	accepted := make(chan *cm.Conn)
	go func() { accepted <- must(l.Accept(ctx)) }()
	client = must(cm.Dial(ctx, h.dev, l.Addr().String()))
	return h, l, client, <-accepted
}

// leakDevice ends without closing the objects that it has made.
func leakDevice(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	a.write(to.Remote(), all(from))
	a.done()
	if !mistake {
		h.close()
	}
}

// leakConn closes one end of a connection, and not the other.
func leakConn(mistake bool) {
	h, l, client, server := connected()
	check(client.Close())
	if mistake {
		return
	}
	check(server.Close())
	check(l.Close())
	h.close()
}

// leakStream ends with a stream of package rnet open.
func leakStream(mistake bool) {
	h := open()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l := must(rnet.Listen(ctx, h.dev, ":0"))
	go func() {
		c := must(l.Accept())
		must(c.Write([]byte("hello")))
		check(c.Close())
	}()
	c := must(rnet.Dial(ctx, h.dev, l.Addr().String()))
	must(c.Read(make([]byte, 5)))
	if mistake {
		return
	}
	check(c.Close())
	check(l.Close())
	h.close()
}

// ids are two connected ids, each with a channel of its own.
type ids struct {
	*host
	atClient, atServer       *cm.EventChannel
	listener, client, server *cm.ID
	ctx                      context.Context
}

// take takes the next event, which has to be of a type.
func (c *ids) take(ch *cm.EventChannel, want cm.EventType) *cm.Event {
	e := must(ch.Get(c.ctx))
	if e.Type != want {
		fail(e.Err)
	}
	return e
}

// connectIDs connects two ids by their events.
func connectIDs() *ids {
	c := &ids{host: open(), atClient: cm.NewEventChannel(), atServer: cm.NewEventChannel(), ctx: context.Background()}
	c.listener = must(cm.NewID(c.atServer, c.dev, cm.TCP))
	check(c.listener.Bind(netip.AddrPortFrom(must(c.dev.GIDs(1))[0].GID.Addr().Unmap(), 0)))
	check(c.listener.Listen(1))
	c.client = must(cm.NewID(c.atClient, c.dev, cm.TCP))
	check(c.client.ResolveAddr(netip.AddrPort{}, c.listener.LocalAddr(), patience))
	c.take(c.atClient, cm.AddrResolved)
	check(c.client.ResolveRoute(patience))
	c.take(c.atClient, cm.RouteResolved)
	c.queuePair(c.client)
	p := cm.DefaultConnParam
	check(c.client.Connect(&p))
	c.server = c.take(c.atServer, cm.ConnectRequest).ID
	c.queuePair(c.server)
	check(c.server.Accept(&p))
	c.take(c.atClient, cm.Established)
	c.take(c.atServer, cm.Established)
	return c
}

func (c *ids) queuePair(id *cm.ID) {
	cq := must(c.dev.CreateCQ(32, nil))
	c.others = append(c.others, cq.Close)
	size := verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}
	must(id.CreateQP(c.pd, verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: size}))
}

func (c *ids) close() {
	for _, id := range []*cm.ID{c.client, c.server, c.listener} {
		if qp := id.QP(); qp != nil {
			check(qp.Close())
		}
		check(id.Close())
	}
	check(c.atClient.Close())
	check(c.atServer.Close())
	c.host.close()
}

// eventsLeftDisconnected ends with an event in the channel that nobody took.
func eventsLeftDisconnected(mistake bool) {
	c := connectIDs()
	check(c.client.Disconnect())
	c.take(c.atClient, cm.Disconnected)
	check(c.atServer.Wait(c.ctx))
	if mistake {
		return
	}
	c.take(c.atServer, cm.Disconnected)
	c.close()
}

// completionErrorUnreadFlushed moves a queue pair to the error state, and reads the completions of some of its
// receives, or of all.
func completionErrorUnreadFlushed(mistake bool) {
	h := open()
	_, b := h.pair(verbs.QPInit{}, nil)
	to := h.region(page)
	for i := range 3 {
		b.receive(to.SGE(i*64, 64))
	}
	check(b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	n := 3
	if mistake {
		n = 1
	}
	for range n {
		b.next()
	}
	h.close()
}

// completionErrorUnreadLength sends more than the receive takes, and looks at one end, or at both.
func completionErrorUnreadLength(mistake bool) {
	h := open()
	a, b := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(64)
	b.receive(all(to))
	a.send(all(from))
	a.next()
	if !mistake {
		b.next()
	}
	h.close()
}

// completionErrorUnreadEnd ends by EndChecks with its device open, and has polled the completion of a WRITE that
// failed, or has not.
func completionErrorUnreadEnd(mistake bool) {
	h := open()
	a, _ := h.pair(verbs.QPInit{}, nil)
	from, to := h.region(page), h.region(page)
	remote := to.Remote()
	remote.Key ^= 1
	a.write(remote, all(from))
	for a.qp.State() != verbs.StateError {
		time.Sleep(time.Millisecond)
	}
	if !mistake {
		a.next()
		h.close()
	}
	ramjet.EndChecks()
}
