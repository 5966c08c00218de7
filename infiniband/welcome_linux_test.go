// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A port may change while a program attaches. The welcome is the program's first message all the same: it takes
// anything else for an error.
func TestChangedBeforeWelcome(t *testing.T) {
	f, err := GenerateFabric("pair", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "fabric")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := program.Write(appendMessage(nil, kindHello,
		hello{Version: protocolVersion, Adapter: "host-1"})); err != nil {
		t.Fatal(err)
	}

	g := &session{conn: server, Waiter: f.running.NewWaiter(), done: make(chan struct{})}
	g.Changed(1, verbs.EventPortActive) // as the fabric calls it as soon as the program is attached
	if err := f.greet(g, newReader(server, maxRequest), &greetings{}); err != nil {
		t.Fatal(err)
	}
	defer g.attachment.Close()
	g.Changed(1, verbs.EventLIDChange)

	g.mu.Lock()
	defer g.mu.Unlock()
	r := newReader(bytes.NewReader(g.buf), maxMessage)
	if k, b, err := r.next(); err != nil || k != kindWelcome || decode(b, new(welcome)) != nil {
		t.Fatalf("the first message is of kind %d: %v", k, err)
	}
	if k, _, err := r.next(); err != nil || k != kindChanged {
		t.Errorf("a change after the welcome is not sent: kind %d, %v", k, err)
	}
}

// A program that connects and says nothing is disconnected: it would hold a connection for ever.
func TestSilentProgram(t *testing.T) {
	testrun.SkipUnlessLong(t, "waits until a hello is overdue")
	t.Parallel()
	f, err := GenerateFabric("pair", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := fmt.Sprintf("silent-%d", os.Getpid())
	if err := f.Serve(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	c, err := dialLocal(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is still connected after a minute")
	}
}
