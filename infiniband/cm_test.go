// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// within returns a context that ends long after everything should have.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// device opens an adapter of a fabric.
func device(t testing.TB, f *infiniband.Fabric, adapter string) *verbs.Device {
	t.Helper()
	d, err := f.Open(adapter, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// gidOf returns the address that a device's first GID is.
func gidOf(t testing.TB, d *verbs.Device) string {
	t.Helper()
	gids, err := d.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrFrom16(gids[0].GID).String()
}

// talk sends messages and expects their echoes.
func talk(ctx context.Context, c *cm.Conn, n int) error {
	for i := range n {
		msg := fmt.Appendf(nil, "message %d", i)
		if err := c.Send(ctx, msg); err != nil {
			return err
		}
		b, err := c.Recv(ctx)
		if err != nil {
			return err
		}
		same := bytes.Equal(b.Bytes(), msg)
		b.Release()
		if !same {
			return fmt.Errorf("message %d came back changed", i)
		}
	}
	return nil
}

// A listener is reached by the adapter's IP address, and by its GID.
func TestDial(t *testing.T) {
	f := softfabric.Start(t, "fat-tree:4,2")
	server, client := device(t, f, "host-1"), device(t, f, "host-8")
	for _, host := range []string{"198.18.0.1", gidOf(t, server)} {
		l := pair.Echo(t, server, net.JoinHostPort(host, "0"))
		if got := l.Addr().Addr().String(); got != host {
			t.Errorf("the listener of %s is at %s", host, got)
		}
		c, err := cm.Dial(within(t), client, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := talk(within(t), c, 10); err != nil {
			t.Fatal(err)
		}
		if c.PeerAddr() != l.Addr() {
			t.Errorf("the peer is at %v, want %v", c.PeerAddr(), l.Addr())
		}
		c.Close()
	}
}

// Devices at one adapter are reached by their ports, and from one another.
func TestAttachments(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	one, two, far := device(t, f, "host-1"), device(t, f, "host-1"), device(t, f, "host-2")
	l1, l2 := pair.Echo(t, one, "198.18.0.1:7001"), pair.Echo(t, two, "198.18.0.1:7002")
	if _, err := cm.Listen(t.Context(), two, "198.18.0.1:7001"); err == nil {
		t.Error("two devices at one adapter listen on one port")
	}
	var dialers sync.WaitGroup
	for _, from := range []*verbs.Device{one, two, far} {
		for _, l := range []*cm.Listener{l1, l2} {
			dialers.Go(func() {
				c, err := cm.Dial(within(t), from, l.Addr().String())
				if err != nil {
					t.Errorf("%v: %v", l.Addr(), err)
					return
				}
				defer c.Close()
				if err := talk(within(t), c, 50); err != nil {
					t.Error(err)
				}
			})
		}
	}
	dialers.Wait()
}

func TestRefused(t *testing.T) {
	f := softfabric.Start(t, "pair")
	server, client := device(t, f, "host-1"), device(t, f, "host-2")
	l, err := cm.Listen(t.Context(), server, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var why *cm.RejectError
	if _, err := cm.Dial(within(t), client, "198.18.0.1:7777"); !errors.As(err, &why) ||
		why.Reason != cm.ReasonInvalidService {
		t.Errorf("nobody listens there: %v", err)
	}
	go func() {
		r, err := l.Next(t.Context())
		if err == nil {
			r.Reject([]byte("not today"))
		}
	}()
	_, err = cm.Dial(within(t), client, fmt.Sprintf("198.18.0.1:%d", l.Addr().Port()))
	if !errors.As(err, &why) || why.Reason != cm.ReasonConsumer ||
		!bytes.HasPrefix(why.PrivateData, []byte("not today")) {
		t.Errorf("rejected: %v", err)
	}
	if _, err := cm.Dial(within(t), client, "198.18.0.200:7777"); err == nil {
		t.Error("an address that no adapter has is reached")
	} else {
		t.Log(err)
	}
}

// stream runs nettest's checks of net.Conn between two devices.
func stream(t *testing.T, a, b *verbs.Device) {
	l, err := rnet.Listen(t.Context(), b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		x, err := rnet.Dial(t.Context(), a, l.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		y, err := l.Accept()
		return x, y, func() { x.Close(); y.Close() }, err
	})
}

func TestStream(t *testing.T) {
	f := softfabric.Start(t, "pair")
	stream(t, device(t, f, "host-1"), device(t, f, "host-2"))
}

// Queue pairs give up after half a minute of silence with a patient timeout: beside busy programs a process may get
// no processor for longer than the two seconds of the default, or the manager none to find another way. A hasty one
// is for tests that wait for the end: four seconds.
const patient, hasty = 20, 17

// transfer writes through a stream until it is stopped, and checks the data that arrives.
type transfer struct {
	a, b  *rnet.Conn
	moved chan int // bytes received so far, whenever the test receives from it
	ended chan error
}

func startTransfer(t *testing.T, from, to *verbs.Device, ackTimeout uint8) *transfer {
	t.Helper()
	// Most transfers are closed in their midst, some without a way to the peer: nobody waits until it has everything.
	opt := rnet.Options{Linger: time.Millisecond}
	l, err := (&rnet.ListenConfig{Device: to, Options: opt}).Listen(t.Context(), net.JoinHostPort(gidOf(t, to), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ch := cm.NewEventChannel()
	t.Cleanup(func() { ch.Close() })
	id, err := cm.NewID(ch, from, cm.TCP)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.SetAckTimeout(ackTimeout); err != nil {
		t.Fatal(err)
	}
	a, err := rnet.DialID(within(t), id, netip.MustParseAddrPort(l.Addr().String()), &opt)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	x := &transfer{a: a, b: b.(*rnet.Conn), moved: make(chan int), ended: make(chan error, 2)}
	var both sync.WaitGroup
	both.Go(func() {
		buf := make([]byte, 100_000)
		for at := 0; ; at += len(buf) {
			for i := range buf {
				buf[i] = byte((at + i) % 251)
			}
			if _, err := x.a.Write(buf); err != nil {
				x.ended <- err
				return
			}
		}
	})
	both.Go(func() {
		buf := make([]byte, 1<<16)
		for at := 0; ; {
			n, err := x.b.Read(buf)
			for i, c := range buf[:n] {
				if c != byte((at+i)%251) {
					x.ended <- fmt.Errorf("byte %d is wrong", at+i)
					return
				}
			}
			if at += n; err != nil {
				if err == io.EOF {
					err = errors.New("it ended as if all were done")
				}
				x.ended <- err
				return
			}
			select {
			case x.moved <- at:
			default:
			}
		}
	})
	t.Cleanup(func() {
		x.a.Close()
		x.b.Close()
		both.Wait()
	})
	return x
}

// more waits until n more bytes have moved.
func (x *transfer) more(t *testing.T, n int) {
	t.Helper()
	first := -1
	for late := time.After(time.Minute); ; {
		select {
		case at := <-x.moved:
			if first < 0 {
				first = at
			}
			if at-first >= n {
				return
			}
		case err := <-x.ended:
			t.Fatal(err)
		case <-late:
			t.Fatal("nothing moves")
		}
	}
}

// end waits until both directions have ended, with a status.
func (x *transfer) end(t *testing.T) {
	t.Helper()
	for late := time.After(2 * time.Minute); ; {
		select {
		case err := <-x.ended:
			t.Log("ended:", err)
			return
		case <-late:
			t.Fatal("the transfer waits for ever")
		}
	}
}

// TestCablePulled pulls cables of a fabric with two spines while a stream is written: one after the other,
// each put back before the next, so that there always is a way.
func TestCablePulled(t *testing.T) {
	t.Parallel()
	f := softfabric.Start(t, "fat-tree:4,2")
	x := startTransfer(t, device(t, f, "host-1"), device(t, f, "host-8"), patient)
	x.more(t, 1<<20)
	for i, c := range spineCables(t, f) {
		if err := f.Pull(c.A); err != nil {
			t.Fatal(err)
		}
		x.more(t, 1<<20)
		if err := f.Plug(c.A, c.B); err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitActive(within(t)); err != nil {
			t.Fatal(err)
		}
		t.Log(i, c.A, "was out")
	}
}

// spineCables returns the cables between switches.
func spineCables(t *testing.T, f *infiniband.Fabric) (all []infiniband.CableView) {
	v := f.View()
	adapter := make(map[string]bool)
	for _, n := range v.Nodes {
		adapter[n.Name] = n.Adapter()
	}
	for _, c := range v.Cables {
		if !adapter[c.A.Node] && !adapter[c.B.Node] {
			all = append(all, c)
		}
	}
	if len(all) < 4 {
		t.Fatalf("cables between switches: %v", all)
	}
	return all
}

// With all cables out, a transfer ends with a status.
func TestAllCablesPulled(t *testing.T) {
	t.Parallel()
	f := softfabric.Start(t, "fat-tree:4,2")
	x := startTransfer(t, device(t, f, "host-1"), device(t, f, "host-8"), hasty)
	x.more(t, 1<<20)
	for _, c := range spineCables(t, f) {
		if err := f.Pull(c.A); err != nil {
			t.Fatal(err)
		}
	}
	x.end(t)
}

// Closing a device, or a fabric, ends operations in flight.
func TestClosed(t *testing.T) {
	t.Parallel()
	t.Run("device", func(t *testing.T) {
		t.Parallel()
		f := softfabric.Start(t, "pair")
		a, b := device(t, f, "host-1"), device(t, f, "host-2")
		x := startTransfer(t, a, b, hasty)
		x.more(t, 1<<20)
		b.Close()
		x.end(t)
	})
	t.Run("fabric", func(t *testing.T) {
		t.Parallel()
		f := softfabric.Start(t, "pair")
		a, b := device(t, f, "host-1"), device(t, f, "host-2")
		x := startTransfer(t, a, b, hasty)
		x.more(t, 1<<20)
		f.Close()
		x.end(t)
		if _, err := f.Open("host-1", nil); err == nil {
			t.Error("a closed fabric has adapters")
		}
	})
}
