// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// patience bounds a wait for something that must happen.
const patience = 3 * time.Minute

// open opens a device of a loopback address of its own.
func open(t testing.TB) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	return dev
}

// within returns a context that ends after patience.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails ends the test unless err is want and its text has all of words.
func fails(t testing.TB, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one of: %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not name %q", err, w)
		}
	}
}

// eventually polls for a condition.
func eventually(t testing.TB, cond func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// listen makes a listener, which is closed with the test.
func listen(t testing.TB, dev *verbs.Device, opts ...cm.Option) *cm.Listener {
	t.Helper()
	l, err := cm.Listen(t.Context(), dev, ":0", opts...)
	ok(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// accepted is the result of a listener's Accept.
type accepted struct {
	c   *cm.Conn
	err error
}

// accept accepts one connection in a goroutine.
func accept(t testing.TB, l *cm.Listener) <-chan accepted {
	ch := make(chan accepted, 1)
	ctx := within(t)
	go func() {
		c, err := l.Accept(ctx)
		ch <- accepted{c, err}
	}()
	return ch
}

// pair returns two connected ends, which are closed with the test.
func pair(t testing.TB, opts ...cm.Option) (client, server *cm.Conn) {
	t.Helper()
	a, b := open(t), open(t)
	l := listen(t, b, opts...)
	in := accept(t, l)
	client, err := cm.Dial(within(t), a, l.Addr().String(), opts...)
	ok(t, err)
	got := <-in
	ok(t, got.err)
	t.Cleanup(func() { client.Close(); got.c.Close() })
	return client, got.c
}

// event waits for a channel's next event and checks its type.
func event(t testing.TB, ch *cm.EventChannel, want cm.EventType) *cm.Event {
	t.Helper()
	e, err := ch.Get(within(t))
	if err != nil {
		t.Fatalf("waiting for %q: %v", want, err)
	}
	if e.Type != want {
		t.Fatalf("event %q (%v), want %q", e.Type, e.Err, want)
	}
	return e
}
