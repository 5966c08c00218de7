// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// deadline keeps a test that is stuck from waiting for ever.
func deadline(t testing.TB, cs ...*Conn) {
	for _, c := range cs {
		if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

// Both ways at once, in pieces of random sizes: the data arrives as it was sent.
func TestBothWays(t *testing.T) {
	for name, o := range map[string]Options{
		"default": {},
		"odd":     {SendBuffer: 12345, RecvBuffer: 23456, SendQueue: 17, RecvQueue: 19, Inline: 100},
		"busy":    {Spin: Busy},
		"probing": {KeepAlive: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := testPair(t, o)
			bothWays(t, a, b)
		})
	}
}

func bothWays(t *testing.T, a, b *Conn) {
	deadline(t, a, b)
	const total = 3 << 20
	type result struct {
		sum []byte
		err error
	}
	send := func(c *Conn, seed uint64, ch chan<- result) {
		rng, h := rand.New(rand.NewPCG(seed, 2)), sha256.New()
		buf := make([]byte, 200<<10)
		for left := total; left > 0; {
			n := min(left, 1+rng.IntN(len(buf)))
			if rng.IntN(2) == 0 {
				n = min(n, 300)
			}
			for i := range buf[:n] {
				buf[i] = byte(rng.Uint32())
			}
			h.Write(buf[:n])
			if k, err := c.Write(buf[:n]); k != n || err != nil {
				ch <- result{err: err}
				return
			}
			left -= n
		}
		ch <- result{h.Sum(nil), c.CloseWrite()}
	}
	recv := func(c *Conn, ch chan<- result) {
		h := sha256.New()
		n, err := io.Copy(h, c)
		if err == nil && n != total {
			err = io.ErrUnexpectedEOF
		}
		ch <- result{h.Sum(nil), err}
	}
	sent, got := [2]chan result{}, [2]chan result{}
	for i, c := range []*Conn{a, b} {
		sent[i], got[i] = make(chan result, 1), make(chan result, 1)
		go send(c, uint64(i), sent[i])
		go recv(c, got[i])
	}
	for i := range 2 {
		s, g := <-sent[i], <-got[1-i]
		if s.err != nil || g.err != nil {
			t.Fatal(s.err, g.err)
		}
		if !bytes.Equal(s.sum, g.sum) {
			t.Errorf("direction %d: other bytes arrived", i)
		}
	}
}

func TestHalfClose(t *testing.T) {
	a, b := testPair(t, Options{})
	deadline(t, a, b)
	a.Write([]byte("question"))
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if q, err := io.ReadAll(b); err != nil || string(q) != "question" {
		t.Fatalf("%q, %v", q, err)
	}
	if _, err := a.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write after CloseWrite: %v", err)
	}
	if _, err := b.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err := io.ReadAll(a); err != nil || string(q) != "answer" {
		t.Fatalf("%q, %v", q, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// CloseWrite may find as many messages under way as there may be, none of which anybody looks for
// any more, as everything was read.
func TestCloseWriteAfterRead(t *testing.T) {
	const half, size = 8, 64
	const messages = 2 * half
	a, b := testPair(t, Options{RecvBuffer: messages * size, RecvQueue: messages, Inline: size})
	deadline(t, a, b)
	flushed := func(c *Conn) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.await(&c.closing); err != nil {
			t.Fatal(err)
		}
	}
	flushed(a) // of the first messages of both sides
	flushed(b)
	a.Ready()
	for range messages {
		if _, err := b.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	flushed(b)
	// Each half of the messages uses half of the credits, and takes an update for each half of the
	// ring. The completions of these updates come behind the earlier completions.
	a.mu.Lock()
	for _, n := range []int{half, half, 1} {
		if k := a.ep.cq.Poll(a.poll.wcs[:n]); k != n {
			t.Fatalf("%d completions, not %d", k, n)
		}
		a.handle(a.poll.wcs[:n], nil)
	}
	a.mu.Unlock()
	for range 2 {
		if n, err := a.Read(make([]byte, half*size)); n != half*size || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := a.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(n, err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if !a.stream.ShutdownSent() {
		t.Fatal("CloseWrite has returned before the peer was told")
	}
	if n, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(n, err)
	}
}

// Close ends in time though Disconnect waits, too, for a peer that does not answer.
func TestCloseDuringDisconnect(t *testing.T) {
	c, _ := testPair(t, Options{Linger: 50 * time.Millisecond, KeepAlive: -1})
	c.mu.Lock()
	c.closing.ready = func() bool { return false }
	c.mu.Unlock()
	ended := make(chan error, 2)
	go func() { ended <- c.Disconnect() }()
	waitUntil(t, c, func() bool { return !c.closing.deadline.IsZero() })
	go func() { ended <- c.Close() }()
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("one of both waits for ever")
		}
	}
}

// Data that was written before Close arrives, though the peer does not read yet.
func TestCloseDelivers(t *testing.T) {
	a, b := testPair(t, Options{})
	deadline(t, a, b)
	want := bytes.Repeat([]byte("0123456789"), 10000)
	if _, err := a.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if _, err := b.Write(want); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write to a closed peer: %v", err)
	}
}

// A Read and a Write that wait at once both end with Close, and with a deadline.
func TestUnblock(t *testing.T) {
	for name, spin := range map[string]time.Duration{"spinning": time.Hour, "sleeping": -1} {
		for _, end := range []struct {
			name string
			do   func(*Conn) error
			want error
		}{
			{"close", (*Conn).Close, net.ErrClosed},
			{"deadline", func(c *Conn) error { return c.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		} {
			t.Run(name+" "+end.name, func(t *testing.T) {
				a, _ := testPair(t, Options{Spin: spin})
				errs := make(chan error, 2)
				go func() {
					_, err := a.Read(make([]byte, 1))
					errs <- err
				}()
				go func() {
					for {
						if _, err := a.Write(make([]byte, 1<<20)); err != nil {
							errs <- err
							return
						}
					}
				}()
				// One of the two waits for the other, which polls.
				for waiting := false; !waiting; {
					time.Sleep(time.Millisecond)
					a.mu.Lock()
					waiting = a.poll.busy && (a.read.waiting || a.write.waiting)
					a.mu.Unlock()
				}
				if err := end.do(a); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := <-errs; !errors.Is(err, end.want) {
						t.Errorf("%v, want %v", err, end.want)
					}
				}
			})
		}
	}
}

// A deadline that passed does no harm once it is moved.
func TestDeadlineMoved(t *testing.T) {
	a, b := testPair(t, Options{})
	a.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	deadline(t, a, b)
	b.Write([]byte("x"))
	if n, err := a.Read(make([]byte, 9)); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// wantEnd waits for the end of a Read that nothing is sent to.
func wantEnd(t *testing.T, c *Conn, want error, while func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	waitUntil(t, c, func() bool { return c.poll.busy })
	while()
	select {
	case err := <-ended:
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Error("Read does not end")
	}
}

// A timer that fires too early, as the clock was set back, fires again.
func TestDeadlineClockSetBack(t *testing.T) {
	c, _ := testPair(t, Options{})
	wantEnd(t, c, os.ErrDeadlineExceeded, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.read.setDeadline(time.Now().Add(time.Millisecond))
		c.read.deadline = time.Now().Add(50 * time.Millisecond)
	})
}

// When one goroutine finds the connection broken, the waits of the others end.
func TestBrokenElsewhere(t *testing.T) {
	c, _ := testPair(t, Options{KeepAlive: -1, Linger: time.Millisecond})
	wantEnd(t, c, syscall.EIO, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fail(syscall.EIO)
	})
}

// A peer whose queue pair is gone without a word is noticed.
func TestPeerVanishes(t *testing.T) {
	t.Parallel()
	a, b := hastyPair(t, Options{Linger: time.Millisecond})
	deadline(t, a)
	if err := b.ep.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := a.Write(make([]byte, 1000)); err != nil {
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ETIMEDOUT) {
				t.Error(err)
			}
			break
		}
	}
	if _, err := a.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("Read: %v", err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read of the broken side: %v", err)
	}
}

func TestMapped(t *testing.T) {
	a, b := testPair(t, Options{IOMaps: 1})
	mapped(t, a, b)
}

// mapped has b write to memory of a, for which it has room once.
func mapped(t *testing.T, a, b *Conn) {
	deadline(t, a, b)
	buf := make([]byte, 100000)
	mr, err := a.Map(buf, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Map(buf, 0); !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("one more than the peer has room for: %v", err)
	}
	a.Write([]byte("go"))
	if _, err := io.ReadFull(b, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if n, err := b.WriteAt([]byte("x"), 999); n != 0 || !errors.Is(err, verbs.ErrNotFound) {
		t.Errorf("before the mapped memory: %v", err)
	}
	data := bytes.Repeat([]byte("abcdefg"), 14000)
	if n, err := b.WriteAt(data, 1500); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	b.Write([]byte("done"))
	if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	mr.Do(func(got []byte) {
		if !bytes.Equal(got[500:500+len(data)], data) || got[499] != 0 || got[500+len(data)] != 0 {
			t.Error("the mapped memory is wrong")
		}
	})
	if err := a.Unmap(mr); err != nil {
		t.Fatal(err)
	}
	if err := a.Unmap(mr); !errors.Is(err, verbs.ErrNotFound) {
		t.Errorf("Unmap twice: %v", err)
	}
}

func TestOptions(t *testing.T) {
	dev, _ := open(t)
	for name, o := range map[string]Options{
		"RecvQueue":  {RecvQueue: 1 << 16},
		"SendQueue":  {SendQueue: 5},
		"SendBuffer": {SendBuffer: 10},
		"RecvBuffer": {RecvBuffer: -1},
		"Inline":     {Inline: 1 << 30},
		"IOMaps":     {IOMaps: 1 << 20},
	} {
		if _, err := o.withDefaults(dev); !errors.Is(err, verbs.ErrInvalid) ||
			!bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing is left behind: the device can be closed.
func TestNothingLeft(t *testing.T) {
	da, _ := open(t)
	db, _ := open(t)
	for range 20 {
		a, b := byHand(t, da, db, Options{}, Options{})
		a.Write([]byte("x"))
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(da.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

func TestAllocations(t *testing.T) {
	// Places in queues allocate when they are used first, and queues grow whenever more than
	// ever is under way: short ones have fewer places than there are runs.
	a, b := testPair(t, Options{SendQueue: 16, RecvQueue: 16})
	deadline(t, a, b)
	small, large := make([]byte, 64), make([]byte, 64<<10)
	for name, buf := range map[string][]byte{"small": small, "large": large} {
		roundTrip := func() {
			if _, err := a.Write(buf); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, buf); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			roundTrip()
		}
		if n := testing.AllocsPerRun(200, roundTrip); n != 0 {
			t.Errorf("%s: %v allocations for a Write and its Read", name, n)
		}
	}
}
