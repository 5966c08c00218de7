// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestDialPrivateData(t *testing.T) {
	a, b := open(t), open(t)
	l := listen(t, b, cm.WithPrivateData([]byte("from the server")))
	in := accept(t, l)
	c, err := cm.Dial(within(t), a, l.Addr().String(), cm.WithPrivateData([]byte("from the client")),
		cm.WithReads(3, 2))
	ok(t, err)
	defer c.Close()
	s := <-in
	ok(t, s.err)
	defer s.c.Close()
	holds(t, "server's", c.Param().PrivateData, "from the server", cm.MaxAcceptData)
	holds(t, "client's", s.c.Param().PrivateData, "from the client", cm.MaxConnectData)
	if p := s.c.Param(); p.ResponderResources != 2 || p.InitiatorDepth != 3 {
		t.Errorf("the server has depths %d, %d", p.ResponderResources, p.InitiatorDepth)
	}
	if c.PeerAddr() != l.Addr() || s.c.PeerAddr() != c.LocalAddr() || s.c.LocalAddr() != l.Addr() {
		t.Errorf("%v to %v, %v to %v", c.LocalAddr(), c.PeerAddr(), s.c.LocalAddr(), s.c.PeerAddr())
	}
	_, err = cm.Dial(within(t), a, l.Addr().String(), cm.WithPrivateData(make([]byte, cm.MaxConnectData+1)))
	fails(t, err, verbs.ErrInvalid, "private data", l.Addr().String())
}

// A program that looks at requests first.
func TestRequests(t *testing.T) {
	a, b := open(t), open(t)
	l := listen(t, b)
	ctx := within(t)
	for _, welcome := range []bool{true, false} {
		dialed := make(chan accepted)
		go func() {
			c, err := cm.Dial(ctx, a, l.Addr().String(), cm.WithPrivateData([]byte("let me in")))
			dialed <- accepted{c, err}
		}()
		r, err := l.Next(ctx)
		ok(t, err)
		holds(t, "request", r.Param().PrivateData, "let me in", cm.MaxConnectData)
		if welcome {
			c, err := r.Accept(ctx, cm.WithPrivateData([]byte("come in")))
			ok(t, err)
			client := <-dialed
			ok(t, client.err)
			holds(t, "server's", client.c.Param().PrivateData, "come in", cm.MaxAcceptData)
			ok(t, client.c.Close())
			<-c.Done()
			ok(t, c.Close())
			continue
		}
		ok(t, r.Reject([]byte("not today")))
		var why *cm.RejectError
		if err := (<-dialed).err; !errors.As(err, &why) || why.Reason != cm.ReasonConsumer ||
			!bytes.HasPrefix(why.PrivateData, []byte("not today")) {
			t.Errorf("%v", err)
		}
	}
	// A no with more than the message has room for is a no.
	done := make(chan error)
	go func() {
		_, err := cm.Dial(ctx, a, l.Addr().String())
		done <- err
	}()
	r, err := l.Next(ctx)
	ok(t, err)
	fails(t, r.Reject(make([]byte, cm.MaxRejectData+1)), verbs.ErrInvalid)
	fails(t, <-done, syscall.ECONNREFUSED)
}

// Queue pairs that the program sets up itself.
func TestWithSetup(t *testing.T) {
	a, b := open(t), open(t)
	setup := func(dev *verbs.Device) (*verbs.CQ, cm.Option) {
		pd, err := dev.AllocPD()
		ok(t, err)
		cq, err := dev.CreateCQ(16, nil)
		ok(t, err)
		return cq, cm.WithSetup(func(id *cm.ID, p *cm.ConnParam) error {
			p.PrivateData = fmt.Append(nil, "I am ", id.Device().Name())
			_, err := id.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq})
			return err
		})
	}
	_, serve := setup(b)
	l := listen(t, b, serve)
	in := accept(t, l)
	cq, call := setup(a)
	c, err := cm.Dial(within(t), a, l.Addr().String(), call)
	ok(t, err)
	s := <-in
	ok(t, s.err)
	holds(t, "client's", s.c.Param().PrivateData, "I am "+a.Name(), cm.MaxConnectData)
	ok(t, c.QP().PostSend(&verbs.SendWR{ID: 5, Op: verbs.OpWrite, Flags: verbs.Signaled}))
	var wc [1]verbs.WC
	if _, err := cq.Wait(within(t), wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess {
		t.Errorf("%v, %v", err, wc[0].Status)
	}
	fails(t, c.Send(within(t), nil), verbs.ErrNotSupported)
	_, err = c.Recv(within(t))
	fails(t, err, verbs.ErrNotSupported)
	ok(t, c.Close())
	ok(t, s.c.Close())

	oops := errors.New("no memory for you")
	_, err = cm.Dial(within(t), a, l.Addr().String(), cm.WithSetup(func(*cm.ID, *cm.ConnParam) error { return oops }))
	fails(t, err, oops)
}

func TestDialErrors(t *testing.T) {
	a, b := open(t), open(t)
	ctx := within(t)
	to := b.Name()[len("roce:"):]
	l := listen(t, b) // so that a listener answers
	_, err := cm.Dial(ctx, a, to+":1")
	var why *cm.RejectError
	if !errors.As(err, &why) || why.Reason != cm.ReasonInvalidService {
		t.Errorf("nobody listens: %v", err)
	}
	fails(t, err, syscall.ECONNREFUSED, to+":1", "refused")
	_, err = cm.Dial(ctx, a, "203.0.113.77:7471")
	fails(t, err, cm.ErrNoAddr, "203.0.113.77")
	_, err = cm.Dial(ctx, a, "[fd00::1]:7471")
	fails(t, err, cm.ErrNoAddr, "fd00::1")
	_, err = cm.Dial(ctx, a, "nobody.invalid:7471")
	fails(t, err, cm.ErrNoAddr, "nobody.invalid")
	_, err = cm.Dial(ctx, a, to)
	fails(t, err, verbs.ErrInvalid, to, "host:port")
	_, err = cm.Dial(ctx, a, to+":rdma")
	fails(t, err, verbs.ErrInvalid, "port is a number")
	_, err = cm.Dial(ctx, a, to+":0")
	fails(t, err, verbs.ErrInvalid, to+":0")
	_, err = cm.Dial(ctx, a, l.Addr().String(), cm.WithDepth(0, 1))
	fails(t, err, verbs.ErrInvalid, "depths")

	_, err = cm.Listen(ctx, b, "203.0.113.77:0")
	fails(t, err, cm.ErrNoAddr, "203.0.113.77")
	_, err = cm.Listen(ctx, b, l.Addr().String())
	fails(t, err, cm.ErrAddrInUse, l.Addr().Addr().String(), fmt.Sprint(l.Addr().Port()))
	fails(t, err, syscall.EADDRINUSE)
	_, err = cm.Listen(ctx, b, ":99999")
	fails(t, err, verbs.ErrInvalid)
	ended, end := context.WithCancel(ctx)
	end()
	_, err = cm.Listen(ended, b, "nobody.invalid:0")
	fails(t, err, context.Canceled)

	closed := open(t)
	ok(t, closed.Close())
	_, err = cm.Dial(ctx, closed, l.Addr().String())
	fails(t, err, verbs.ErrClosed, closed.Name())
}

// silent returns an address that takes datagrams and answers none.
func silent(t *testing.T) string {
	t.Helper()
	dev := open(t)
	addr := dev.Name()[len("roce:"):]
	dev.Close()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4791)))
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return addr + ":7471"
}

func TestDialTimeout(t *testing.T) {
	a, to := open(t), silent(t)
	_, err := cm.Dial(within(t), a, to, cm.WithTimeout(20*time.Millisecond))
	fails(t, err, cm.ErrTimeout, to, "20ms")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err = cm.Dial(ctx, a, to); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), to) {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	a, to := open(t), silent(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := listen(t, open(t))
	ended := make(chan error)
	for _, f := range []func() error{
		func() error { _, err := cm.Dial(ctx, a, to); return err },
		func() error { _, err := l.Accept(ctx); return err },
		func() error { _, err := l.Next(ctx); return err },
		func() error { _, err := cm.NewEventChannel().Get(ctx); return err },
	} {
		go func() { ended <- f() }()
	}
	cancel()
	for range 4 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// The backlog bounds the requests that wait; a peer that finds no place repeats its request until there is one.
func TestBacklog(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	l := listen(t, b, cm.WithBacklog(2))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	const n = 5
	dialed := make(chan accepted, n)
	for range n {
		go func() {
			c, err := cm.Dial(ctx, a, l.Addr().String())
			if err != nil {
				t.Error(err)
				cancel() // Accept would wait for it
			}
			dialed <- accepted{c, err}
		}()
	}
	eventually(t, func() bool { return l.ID().Requests() == 2 }, "two requests")
	for range n {
		c, err := l.Accept(ctx)
		ok(t, err)
		defer c.Close()
	}
	for range n { // not before: a DREQ may overtake the RTU, and Accept skips peers that have gone
		c := <-dialed
		ok(t, c.err)
		ok(t, c.c.Close())
	}
}

func TestListenerClose(t *testing.T) {
	a, b := open(t), open(t)
	l := listen(t, b)
	in := accept(t, l)
	ok(t, l.Close())
	fails(t, (<-in).err, verbs.ErrClosed)
	ok(t, l.Close())

	// Waiting requests are rejected, established connections stay, and the port is free again.
	at := l.Addr().String()
	l, err := cm.Listen(t.Context(), b, at)
	ok(t, err)
	in = accept(t, l)
	c, err := cm.Dial(within(t), a, at)
	ok(t, err)
	defer c.Close()
	s := <-in
	ok(t, s.err)
	defer s.c.Close()
	late := make(chan error)
	go func() { _, err := cm.Dial(within(t), a, at); late <- err }()
	_, err = l.Next(within(t))
	ok(t, err)
	ok(t, l.Close())
	var why *cm.RejectError
	if err := <-late; !errors.As(err, &why) {
		t.Errorf("%v", err)
	}
	ok(t, c.Send(within(t), []byte("still here")))
}

// A peer that does not complete its connection does not keep others waiting.
func TestAcceptPassesTheSlow(t *testing.T) {
	a, b := open(t), open(t)
	l := listen(t, b)
	slow := newSide(t, a, cm.TCP)
	qp, err := slow.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: slow.cq, RecvCQ: slow.cq})
	ok(t, err)
	slow.resolve(l.Addr())
	ok(t, slow.id.Connect(&cm.ConnParam{QPNum: qp.Num()}))
	in := accept(t, l)
	slow.event(cm.ConnectResponse) // and nothing more
	c, err := cm.Dial(within(t), a, l.Addr().String())
	ok(t, err)
	defer c.Close()
	s := <-in
	ok(t, s.err)
	if s.c.PeerAddr() != c.LocalAddr() {
		t.Error("the slow one was accepted")
	}
	s.c.Close()
}

// begin asks a listener for a connection and leaves the rest to the test.
func begin(t *testing.T, dev *verbs.Device, l *cm.Listener) *side {
	t.Helper()
	s := newSide(t, dev, cm.TCP)
	qp, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	ok(t, err)
	s.resolve(l.Addr())
	ok(t, s.id.Connect(&cm.ConnParam{QPNum: qp.Num()}))
	return s
}

// Peers that do not complete their connections hold as many places as there are. Later peers
// wait, and get a place when a peer goes.
func TestAcceptBoundsTheSlow(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	l := listen(t, b, cm.WithBacklog(1))
	l.SetRoom(1)
	begin := func() *side { return begin(t, a, l) }
	accept(t, l)
	first := begin()
	first.event(cm.ConnectResponse) // and nothing more
	second := begin()
	eventually(t, func() bool { return l.Waiting() == 1 }, "the second one waits")
	third := begin()
	ok(t, first.id.Close())
	second.event(cm.ConnectResponse)
	ok(t, second.id.Close())
	third.event(cm.ConnectResponse) // asked again
}

// A connection that waits for a place gets it in any call of Accept: the call in which it began to
// wait has returned.
func TestAcceptPassesTheTurn(t *testing.T) {
	a, b := open(t), open(t)
	l := listen(t, b, cm.WithBacklog(1))
	l.SetRoom(1)
	begin := func() *side { return begin(t, a, l) }
	in := [2]<-chan accepted{accept(t, l), accept(t, l)}
	first := begin()
	first.event(cm.ConnectResponse)
	second := begin()
	eventually(t, func() bool { return l.Waiting() == 1 }, "the second one waits")
	for _, s := range []*side{first, second} {
		ok(t, s.id.Establish())
		var got accepted
		select {
		case got = <-in[0]:
		case got = <-in[1]:
		}
		ok(t, got.err)
		defer got.c.Close()
		if s == first {
			second.event(cm.ConnectResponse)
		}
	}
}

func TestSeveralListeners(t *testing.T) {
	a, b := open(t), open(t)
	ctx := within(t)
	var wg sync.WaitGroup
	for i := range 10 {
		l := listen(t, b)
		wg.Go(func() {
			s, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Send(ctx, fmt.Append(nil, l.Addr())); err != nil {
				t.Error(i, err)
			}
		})
		wg.Go(func() {
			c, err := cm.Dial(ctx, a, l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			m, err := c.Recv(ctx)
			if err != nil || string(m.Bytes()) != l.Addr().String() {
				t.Errorf("%v from %v", err, l.Addr())
			}
		})
	}
	wg.Wait()
}

// A device can call itself.
func TestSelf(t *testing.T) {
	dev := open(t)
	l := listen(t, dev)
	in := accept(t, l)
	c, err := cm.Dial(within(t), dev, fmt.Sprint(":", l.Addr().Port()))
	ok(t, err)
	s := <-in
	ok(t, s.err)
	ok(t, c.Send(within(t), []byte("to myself")))
	ok(t, c.Close())
	ok(t, s.c.Close())
}

// Nothing is left when everything was closed, at any time.
func TestNothingIsLeft(t *testing.T) {
	a, b := open(t), open(t)
	ok(t, listen(t, a).Close())
	l := listen(t, b) // both have a manager now
	start := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if c, err := l.Accept(ctx); err == nil {
					c.Close()
				}
			}
		})
		wg.Go(func() {
			for i := range 30 {
				limit, stop := context.WithTimeout(ctx, time.Duration(i)*100*time.Microsecond)
				if c, err := cm.Dial(limit, a, l.Addr().String()); err == nil {
					c.Send(limit, []byte("hello"))
					c.Close()
				}
				stop()
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	wg.Wait()
	ok(t, l.Close())
	eventually(t, func() bool { return cm.Idle(a) && cm.Idle(b) }, "the managers have nothing left")
	eventually(t, func() bool { return runtime.NumGoroutine() <= start }, "the goroutines end")
	for _, dev := range []*verbs.Device{a, b} {
		pd, err := dev.AllocPD()
		ok(t, err)
		ok(t, pd.Close())
		ok(t, dev.Close())
	}
	eventually(t, func() bool { return !cm.Managed(a) && !cm.Managed(b) }, "the managers end with their devices")
}

// A listener that could make no connection says so at once.
func TestListenChecksDepths(t *testing.T) {
	dev := open(t)
	for _, o := range []cm.Option{cm.WithDepth(0, 1), cm.WithDepth(1, 0), cm.WithRecvSize(0), cm.WithDepth(1<<30, 1),
		cm.WithDepth(1, 1<<30)} {
		_, err := cm.Listen(t.Context(), dev, ":0", o)
		fails(t, err, verbs.ErrInvalid, "create_qp")
	}
	l, err := cm.Listen(t.Context(), dev, ":0", cm.WithDepth(0, 0),
		cm.WithSetup(func(*cm.ID, *cm.ConnParam) error { return nil }))
	ok(t, err)
	ok(t, l.Close())
}

// A name that cannot be found is an error of this package, and the resolver's.
func TestResolveError(t *testing.T) {
	_, err := cm.Resolve(within(t), open(t), "host.invalid:7471")
	fails(t, err, cm.ErrNoAddr, "host.invalid:7471")
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		t.Errorf("%v is no *net.DNSError", err)
	}
}
