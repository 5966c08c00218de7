// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// waitForAnswers waits until c, with which nothing else goes on, has heard n times that its
// peer is there, or c is broken.
func waitForAnswers(t *testing.T, c *Conn, n int) {
	t.Helper()
	var heard time.Time
	waitUntil(t, c, func() bool {
		if !c.alive.heard.Equal(heard) {
			heard = c.alive.heard
			n--
		}
		return n < 0 || c.err != nil // the first one was before
	})
}

// waitUntil waits until is, which is called with c.mu held, returns true.
func waitUntil(t *testing.T, c *Conn, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		ok := is()
		c.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the condition did not come true")
		}
	}
}

// wantDead waits for the end of a Read or Write whose peer is dead.
func wantDead(t *testing.T, what string, err <-chan error) {
	t.Helper()
	select {
	case err := <-err:
		if !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

const often = time.Millisecond // a KeepAlive that makes many probes

// A side that only reads notices that the peer's process was killed.
func TestPeerKilled(t *testing.T) {
	t.Parallel()
	nc, peer := startPeer(t, "ramjet", Options{KeepAlive: often}, 's')
	c, ended := nc.(*Conn), make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	waitForAnswers(t, c, 3)
	if err := peer.Kill(); err != nil {
		t.Fatal(err)
	}
	wantDead(t, "Read", ended)
}

// A Write that waits for a peer that does not read notices its death too.
func TestPeerVanishesFull(t *testing.T) {
	t.Parallel()
	for !vanishesFull(t) {
	}
}

// vanishesFull returns false if the machine was so slow that a gave up a peer that was there.
func vanishesFull(t *testing.T) bool {
	t.Helper()
	a, b := hastyPair(t, Options{KeepAlive: often, Linger: often})
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := a.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	}()
	waitForAnswers(t, a, 3)
	a.mu.Lock()
	broken := a.err != nil
	a.mu.Unlock()
	if broken {
		return false
	}
	if err := b.ep.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	wantDead(t, "Write", ended)
	return true
}

// A peer that lives is not disturbed: neither its data nor the end of either direction.
func TestProbesDoNoHarm(t *testing.T) {
	a, b := testPair(t, Options{KeepAlive: often})
	deadline(t, a, b)
	type result struct {
		data []byte
		err  error
	}
	read := func(c *Conn) <-chan result {
		ch := make(chan result, 1)
		go func() {
			data, err := io.ReadAll(c)
			ch <- result{data, err}
		}()
		return ch
	}
	want := func(who string, r result, data []byte) {
		t.Helper()
		if r.err != nil || !bytes.Equal(r.data, data) {
			t.Errorf("%s read %d bytes of %d, %v", who, len(r.data), len(data), r.err)
		}
	}
	data := bytes.Repeat([]byte("0123456789"), 100000)
	atA, atB := read(a), read(b)
	for part := range 4 { // of 250000 bytes
		waitForAnswers(t, a, 3)
		waitForAnswers(t, b, 3)
		if _, err := a.Write(data[part*250000:][:250000]); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	want("b", <-atB, data)
	waitForAnswers(t, a, 3) // half closed
	if _, err := b.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want("a", <-atA, data)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// No timer runs while no caller waits, nor without probes.
func TestNoProbes(t *testing.T) {
	for _, keepAlive := range []time.Duration{often, -1} {
		c, _ := testPair(t, Options{KeepAlive: keepAlive})
		c.SetReadDeadline(time.Now().Add(5 * often))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		waitUntil(t, c, func() bool { return !c.alive.armed })
		if keepAlive < 0 && c.alive.timer != nil {
			t.Error("a timer without probes")
		}
	}
}

// Probes end and begin again under a Read that waits.
func TestProbesWhileReading(t *testing.T) {
	c, _ := testPair(t, Options{KeepAlive: often})
	deadline(t, c)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	for range 3 {
		waitForAnswers(t, c, 3)
		c.SetKeepAlivePeriod(-1)
		waitUntil(t, c, func() bool { return !c.alive.armed })
		c.SetKeepAlivePeriod(often)
	}
	c.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
