// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bytes"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// known exchanges datagrams until b's queue pair is known to a, and returns a's record of b.
func known(t *testing.T, a, b *PacketConn) *packetPeer {
	t.Helper()
	exchange(t, a, b, []byte("over UDP"))
	for {
		a.mu.Lock()
		peer := a.peers[b.local]
		a.mu.Unlock()
		if peer != nil {
			return peer
		}
		time.Sleep(time.Millisecond)
	}
}

// Over Ethernet with its usual MTU a datagram has the room that a path MTU of 1024 leaves. A
// longer datagram is refused, and later ones are sent, even if the queue pair refuses it (IBTA
// 10.3.1.5: SQE, which RTS follows).
func TestPacketPathMTU(t *testing.T) {
	if !loopback.InNamespace(t, 1500) {
		return
	}
	a, b := packetConn(t, Options{}), packetConn(t, Options{})
	if n := a.MaxPayload(); n != 1024-8 {
		t.Errorf("MaxPayload is %d", n)
	}
	peer := known(t, a, b)
	exchange(t, a, b, bytes.Repeat([]byte("x"), a.MaxPayload()))
	if _, err := a.WriteTo(make([]byte, a.MaxPayload()+1), b.LocalAddr()); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("one byte too many: %v", err)
	}
	for range 2 {
		a.writeMu.Lock()
		a.mu.Lock()
		err := a.send(make([]byte, a.MaxPayload()+1), peer)
		free := len(a.write.free)
		a.mu.Unlock()
		a.writeMu.Unlock()
		if !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("a packet longer than the path MTU: %v", err)
		}
		if free != a.opt.SendQueue {
			t.Errorf("%d of %d slots are free", free, a.opt.SendQueue)
		}
		exchange(t, a, b, []byte("goes on"))
		exchange(t, b, a, []byte("and back"))
	}
}

// The next WriteTo returns an error that no call waited for.
func TestPacketSendFails(t *testing.T) {
	a, b := packetConn(t, Options{}), packetConn(t, Options{})
	known(t, a, b)
	a.mu.Lock()
	slot := a.write.free[len(a.write.free)-1]
	a.write.free = a.write.free[:len(a.write.free)-1]
	wr := verbs.SendWR{ID: uint64(slot), Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{{Addr: 64, Length: 64, LKey: 1}},
		AH:  a.peers[b.local].ah, RemoteQPN: a.peers[b.local].qpn}
	err := a.qp.PostSend(&wr)
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	var status *verbs.StatusError
	for i := range 3 {
		_, err := a.WriteTo([]byte("next"), b.LocalAddr())
		if errors.As(err, &status) && status.Status == verbs.StatusLocalProtectionError {
			told++
		} else if err != nil {
			t.Errorf("WriteTo %d: %v", i, err)
		}
	}
	if told != 1 {
		t.Errorf("%d calls returned why a send had failed", told)
	}
}

// With a queue pair in the error state reads and writes fail, and pending calls return.
func TestPacketQueuePairFails(t *testing.T) {
	a, b := packetConn(t, Options{}), packetConn(t, Options{})
	known(t, a, b)
	a.SetReadDeadline(time.Time{})
	done := make(chan error, 1)
	go func() {
		_, _, err := a.ReadFrom(make([]byte, 100))
		done <- err
	}()
	if err := a.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; !errors.Is(err, syscall.ENETDOWN) {
			t.Errorf("ReadFrom: %v", err)
		}
		if _, err := a.WriteTo([]byte("lost"), b.LocalAddr()); !errors.Is(err, syscall.ENETDOWN) {
			t.Errorf("WriteTo: %v", err)
		}
		if r := a.Ready(); r != Readable|Writable|Broken {
			t.Errorf("Ready: %b", r)
		}
		_, _, err := a.TryReadFrom(make([]byte, 100))
		done <- err
	}
	if _, err := a.TryWriteTo([]byte("lost"), b.local); !errors.Is(err, syscall.ENETDOWN) {
		t.Errorf("TryWriteTo: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Calls that a closed device ends return net.ErrClosed, as programs of package net expect.
func TestDeviceClosed(t *testing.T) {
	check := func(what string, err error) {
		t.Helper()
		var op *net.OpError
		if !errors.Is(err, net.ErrClosed) || !errors.Is(err, verbs.ErrClosed) || !errors.As(err, &op) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dev, _ := open(t)
	p, err := ListenPacket(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	other, _ := open(t)
	c, _ := pairOf(t, dev, other, Options{Linger: time.Millisecond})
	reads := make(chan error, 2)
	go func() {
		_, err := c.Read(make([]byte, 1))
		reads <- err
	}()
	go func() {
		_, _, err := p.ReadFrom(make([]byte, 1))
		reads <- err
	}()
	dev.Close()
	check("a read that waited", <-reads)
	check("a read that waited", <-reads)
	_, err = c.Write([]byte("x"))
	check("Write", err)
	_, err = p.WriteTo([]byte("x"), p.LocalAddr())
	check("WriteTo", err)
	_, err = l.Accept()
	check("Accept", err)
	_, err = Dial(t.Context(), dev, l.Addr().String())
	check("Dial", err)
	_, err = Listen(t.Context(), dev, ":0")
	check("Listen", err)
	_, err = ListenPacket(t.Context(), dev, ":0")
	check("ListenPacket", err)
}
