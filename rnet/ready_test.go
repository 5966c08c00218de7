// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
)

// readier is the part of a connection that a program with a loop of its own uses.
type readier interface {
	Notify(func())
	Arm() Readiness
}

// onReady makes a channel of a conn's notifications.
func onReady(r readier) <-chan struct{} {
	notified := make(chan struct{}, 1)
	r.Notify(func() {
		select {
		case notified <- struct{}{}:
		default:
		}
	})
	return notified
}

// untilReady sleeps until one of the things in want can be done.
func untilReady(r readier, notified <-chan struct{}, want Readiness) (Readiness, error) {
	timeout := time.NewTimer(2 * time.Minute)
	defer timeout.Stop()
	for {
		if got := r.Arm(); got&want != 0 {
			return got, nil
		}
		select {
		case <-notified:
		case <-timeout.C:
			return 0, errors.New("no notification came")
		}
	}
}

// Both ways at once from one goroutine a side, which sleeps only in a loop of its own.
func TestReadyBothWays(t *testing.T) {
	for name, o := range map[string]Options{
		"default": {},
		"small":   {SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 17, RecvQueue: 19},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := testPair(t, o)
			const total = 2 << 20
			type result struct {
				sent, got []byte
				err       error
			}
			run := func(c *Conn, seed uint64, done chan<- result) {
				notified := onReady(c)
				rng := rand.New(rand.NewPCG(seed, 3))
				sent, got := sha256.New(), sha256.New()
				out, in := make([]byte, 100<<10), make([]byte, 64<<10)
				var pending []byte
				left, want := total, Readable|Writable
				step := func(ready Readiness) (end bool, err error) {
					if ready&Writable != 0 && left+len(pending) > 0 {
						if len(pending) == 0 {
							pending = out[:min(left, 1+rng.IntN(len(out)))]
							for i := range pending {
								pending[i] = byte(rng.Uint32())
							}
							left -= len(pending)
						}
						n, err := c.TryWrite(pending)
						sent.Write(pending[:n])
						pending = pending[n:]
						if err != nil && err != syscall.EAGAIN {
							return false, err
						}
						if left+len(pending) == 0 {
							want &^= Writable
							if err := c.CloseWrite(); err != nil || want == 0 {
								return true, err
							}
						}
					}
					if ready&want&Readable == 0 {
						return false, nil
					}
					n, err := c.TryRead(in)
					got.Write(in[:n])
					switch err {
					case syscall.EAGAIN:
						return false, nil
					case io.EOF: // the peer has sent all; this side perhaps not
						want &^= Readable
						return want == 0, nil
					}
					return false, err
				}
				var err error
				for end := false; !end && err == nil; {
					var ready Readiness
					if ready, err = untilReady(c, notified, want); err == nil {
						end, err = step(ready)
					}
				}
				sum := func(h hash.Hash) []byte { return h.Sum(nil) }
				done <- result{sum(sent), sum(got), err}
			}
			ra, rb := make(chan result, 1), make(chan result, 1)
			go run(a, 1, ra)
			go run(b, 2, rb)
			x, y := <-ra, <-rb
			if x.err != nil || y.err != nil {
				t.Fatal(x.err, y.err)
			}
			if !bytes.Equal(x.sent, y.got) || !bytes.Equal(y.sent, x.got) {
				t.Error("what arrived is not what was sent")
			}
		})
	}
}

// The non-blocking calls return EAGAIN instead of waiting, and Ready says which of them would succeed.
func TestTry(t *testing.T) {
	a, b := testPair(t, Options{SendBuffer: 4096, RecvBuffer: 4096, IOMaps: 1})
	buf := make([]byte, 64)
	if n, err := a.TryRead(buf); n != 0 || err != syscall.EAGAIN {
		t.Fatal(n, err)
	}
	if r := a.Ready(); r != Writable {
		t.Fatalf("a new connection is ready for %b", r)
	}
	if n, err := b.TryWrite([]byte("hello")); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	notified := onReady(a)
	if _, err := untilReady(a, notified, Readable); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := a.TryPeek(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
	if n, err := a.TryRead(buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("%q, %v", buf[:n], err)
	}

	// A mapped buffer, and then a peer that takes nothing.
	memory := make([]byte, 4096)
	if _, err := a.TryMap(memory, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := a.TryWrite([]byte("mapped")); err != nil {
		t.Fatal(err)
	}
	if _, err := untilReady(b, onReady(b), Readable); err != nil {
		t.Fatal(err)
	}
	if n, err := b.TryWriteAt([]byte("direct"), 107); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := b.TryWriteAt([]byte("direct"), 99); err == nil {
		t.Error("wrote where nothing is mapped")
	}
	full := 0
	for err := error(nil); err == nil; {
		var n int
		n, err = b.TryWrite(make([]byte, 1000))
		if full += n; err != nil && err != syscall.EAGAIN {
			t.Fatal(err)
		}
		if full > 8192 {
			t.Fatal("more was written than there is room for")
		}
		if err == syscall.EAGAIN { // completions may still come
			if b.Ready()&Writable != 0 {
				err = nil
			}
		}
	}
	for read := 0; read < full; {
		if _, err := untilReady(a, notified, Readable); err != nil {
			t.Fatal(err)
		}
		n, err := a.TryRead(memory[2048:])
		if read += n; err != nil && err != syscall.EAGAIN {
			t.Fatal(err)
		}
	}
	if string(memory[7:13]) != "direct" { // it came before the data that was read
		t.Errorf("%q", memory[:16])
	}

	// The end.
	if err := b.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if r, err := untilReady(a, notified, PeerGone); err != nil || r&Readable == 0 {
		t.Fatalf("%b, %v", r, err)
	}
	if _, err := a.TryRead(buf); err != io.EOF {
		t.Error(err)
	}
	if _, err := a.TryWrite(buf); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	a.Close()
	if r := a.Arm(); r&Readable == 0 {
		t.Errorf("a closed connection is ready for %b", r)
	}
	if _, err := a.TryRead(buf); err == nil {
		t.Error("read of a closed connection")
	}
}

// A side that sleeps in a loop of its own hears that its peer was killed.
func TestReadyPeerKilled(t *testing.T) {
	t.Parallel()
	nc, peer := startPeer(t, "ramjet", Options{}, 's')
	c := nc.(*Conn)
	c.SetKeepAlivePeriod(often)
	notified := onReady(c)
	c.Arm()
	if err := peer.Kill(); err != nil {
		t.Fatal(err)
	}
	r, err := untilReady(c, notified, Broken)
	if err != nil || r&Readable == 0 {
		t.Fatalf("%b, %v", r, err)
	}
	if _, err := c.TryRead(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}

func TestPacketReady(t *testing.T) {
	a, b := packetConn(t, Options{}), packetConn(t, Options{})
	notified := onReady(b)
	to := netip.MustParseAddrPort(b.LocalAddr().String())
	buf := make([]byte, 100)
	if _, _, err := b.TryReadFrom(buf); err != syscall.EAGAIN {
		t.Fatal(err)
	}
	if r := b.Ready(); r != Writable {
		t.Fatalf("%b", r)
	}
	for i := range 20 { // the first over UDP, the others between queue pairs
		want := []byte{byte(i), 1, 2, 3}
		if n, err := a.TryWriteTo(want, to); n != len(want) || err != nil {
			t.Fatal(n, err)
		}
		if _, err := untilReady(b, notified, Readable); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func([]byte) (int, netip.AddrPort, error){b.TryPeekFrom, b.TryReadFrom} {
			n, from, err := read(buf)
			if err != nil || !bytes.Equal(buf[:n], want) || from.String() != a.LocalAddr().String() {
				t.Fatalf("%x from %v, %v; want %x", buf[:n], from, err, want)
			}
		}
	}
	if _, err := a.TryWriteTo(make([]byte, 4096), to); !errors.Is(err, syscall.EMSGSIZE) {
		t.Error(err)
	}
	b.Close()
	if _, _, err := b.TryReadFrom(buf); err == nil {
		t.Error("read of a closed conn")
	}
}

// Ids that the program has bound, and a request that it answers when it likes.
func TestWithIDs(t *testing.T) {
	da, addrA := open(t)
	db, addrB := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mk := func(id *cm.ID, err error, at netip.Addr) *cm.ID {
		t.Helper()
		if err == nil {
			err = id.Bind(netip.AddrPortFrom(at, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ida, err := cm.NewID(cm.NewEventChannel(), da, cm.TCP)
	ida = mk(ida, err, addrA)
	idb, err := cm.NewID(cm.NewEventChannel(), db, cm.TCP)
	idb = mk(idb, err, addrB)
	from := ida.LocalAddr()
	l, err := cm.ListenID(idb)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan *Conn, 1)
	go func() {
		c, err := DialID(ctx, ida, l.Addr(), nil)
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	req, err := l.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AcceptRequest(ctx, req, &Options{RecvBuffer: 8192})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a := <-dialed
	if a == nil {
		return
	}
	defer a.Close()
	if b.RemoteAddr().String() != from.String() {
		t.Errorf("the peer is %v, not %v", b.RemoteAddr(), from)
	}
	go a.Write([]byte("hi"))
	got := make([]byte, 2)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "hi" {
		t.Errorf("%q, %v", got, err)
	}
}

// Memory that is not Go's is mapped as it is.
func TestTryMapNoRoom(t *testing.T) {
	a, b := testPair(t, Options{})
	var x [8]byte
	if _, err := a.TryMap(unsafe.Slice(&x[0], 8), 0); err == nil {
		t.Error("mapped for a peer that has no room")
	}
	b.Close()
}
