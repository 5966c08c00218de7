// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"context"
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Messages, and where the rings are in a segment; see package local.
const (
	sendMessage = 1 | 1<<8 | 1<<9
	readMessage = 5
	requestsAt  = 128
	requestRing = 64 << 10
	atWork      = 12 // in a segment
)

// rogue is a peer that writes any bytes to the rings of a connection.
type rogue struct {
	*end
	t    *testing.T
	dev  *verbs.Device // that it is connected to
	ring *local.Sender
}

// newRogue connects a rogue to a device.
func newRogue(t *testing.T) (*rogue, *cm.Conn) {
	t.Helper()
	opt := &Options{Dir: t.TempDir()}
	dev, err := Open("127.0.0.1", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	ln, err := cm.Listen(t.Context(), dev, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan *cm.Conn, 1)
	go func() {
		if c, err := ln.Accept(context.Background()); err == nil {
			conns <- c
		}
	}()
	n, err := newNetwork(netip.MustParseAddr("127.0.0.1"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	r := &rogue{end: &end{net: n.(*network)}, t: t, dev: dev}
	if r.domain, err = n.NewDomain(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.domain.Close)
	l, err := n.Dial(netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort(ln.Addr().String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	r.link = l.(*link)
	l.Own(r.end)
	r.until("the hello", func() bool { return l.Connected() == nil })
	wishes := rdmap.Proposal{ULPDU: rdmap.MaxULPDU, IRD: 1, ORD: 1}
	if _, err := l.Write([][]byte{rdmap.AppendRequest(nil, &wishes, nil)}); err != nil {
		t.Fatal(err)
	}
	r.until("the reply", func() bool { return len(r.inbox) > 0 })
	if _, err := r.Join(r.domain); err != nil {
		t.Fatal(err)
	}
	if r.ring, err = local.NewSender(r.own[requestsAt:], requestRing); err != nil {
		t.Fatal(err)
	}
	c := <-conns
	t.Cleanup(func() { c.Close() })
	return r, c
}

// until looks at the network until cond says so.
func (r *rogue) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); runtime.Gosched() {
		if time.Now().After(end) {
			r.t.Fatalf("%s does not come", what)
		}
		r.look()
	}
}

// say puts a message into the ring, and wakes the device.
func (r *rogue) say(kind uint32, body []byte) {
	r.t.Helper()
	b, err := r.ring.Reserve(len(body), kind)
	if b == nil {
		r.t.Fatalf("there is no room: %v", err)
	}
	copy(b, body)
	r.ring.Publish()
	r.Ring()
}

// TestAnswersToNobody has a peer end that has asked for more than there is room to answer, and sent
// something behind that. It is received, and the connection ends.
func TestAnswersToNobody(t *testing.T) {
	r, c := newRogue(t)
	mr, err := c.PD().RegMR(make([]byte, 1<<20), verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	read := make([]byte, 16)
	binary.NativeEndian.PutUint32(read, uint32(mr.Remote().Key))
	binary.NativeEndian.PutUint32(read[4:], 1<<20)
	binary.NativeEndian.PutUint64(read[8:], mr.Remote().Addr)
	r.say(readMessage, read)
	r.until("the READ's turn", func() bool {
		done, _ := r.ring.Done()
		return done == r.ring.Position()
	})
	r.say(sendMessage, append(make([]byte, 8), "the last"...))
	r.link.Close(true)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := c.Recv(ctx)
	if err != nil {
		t.Fatalf("what was sent before the end: %v", err)
	}
	if string(m.Bytes()) != "the last" {
		t.Errorf("%q was received", m.Bytes())
	}
	m.Release()
	if m, err := c.Recv(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("after the peer's end: %v, %q", err, m.Bytes())
	}
}

// TestCloseAtWork closes a device whose peer works in its memory. Close waits for that, and the device
// does not: the connection has ended meanwhile.
func TestCloseAtWork(t *testing.T) {
	r, _ := newRogue(t)
	work := (*uint32)(unsafe.Pointer(&r.own[atWork]))
	atomic.StoreUint32(work, 1)
	var finished atomic.Bool
	closed, start := make(chan error, 1), time.Now()
	go func() {
		err := r.dev.Close()
		if !finished.Load() && time.Since(start) < 4*time.Second { // it waits for 5 s at most
			t.Error("Close does not wait for what the peer does")
		}
		closed <- err
	}()
	r.until("the end of the link", func() bool { return r.Ended() })
	time.Sleep(20 * time.Millisecond)
	finished.Store(true)
	atomic.StoreUint32(work, 2)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
