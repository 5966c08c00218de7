// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func packetConn(t testing.TB, o Options) *PacketConn {
	dev, _ := open(t)
	p, err := (&ListenConfig{Device: dev, Options: o}).ListenPacket(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	p.SetReadDeadline(time.Now().Add(3 * time.Minute))
	return p
}

// exchange sends a datagram until it arrives, as it may be lost. It does not give up soon: the
// next exchange would receive the late datagram.
func exchange(t *testing.T, from, to *PacketConn, data []byte) {
	t.Helper()
	buf := make([]byte, rsocket.MaxDatagram)
	defer func() { to.SetReadDeadline(time.Now().Add(3 * time.Minute)) }()
	for range 100 {
		if n, err := from.WriteTo(data, to.LocalAddr()); n != len(data) || err != nil {
			t.Fatal(n, err)
		}
		to.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, addr, err := to.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf[:n], data) || addr.String() != from.LocalAddr().String() {
			t.Fatalf("%q from %v, want %q from %v", buf[:n], addr, data, from.LocalAddr())
		}
		return
	}
	t.Fatal("nothing arrives")
}

func TestPacketConn(t *testing.T) {
	a, b := packetConn(t, Options{}), packetConn(t, Options{Spin: -1})
	exchange(t, a, b, []byte("first, over UDP"))
	// The answer to it has told the queue pair by now, or soon does.
	for known := false; !known; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		known = a.peers[b.local] != nil
		a.mu.Unlock()
	}
	before := sent(t, a)
	exchange(t, a, b, []byte("then from queue pair to queue pair"))
	exchange(t, b, a, []byte("and back"))
	exchange(t, a, b, nil)
	exchange(t, a, b, bytes.Repeat([]byte("x"), a.MaxPayload()))
	for range 100 { // on a slow machine the record of b is too old now and then
		if sent(t, a) != before {
			break
		}
		exchange(t, a, b, []byte("again"))
	}
	if sent(t, a) == before {
		t.Error("nothing went through the queue pair")
	}
	if _, err := a.WriteTo(make([]byte, a.MaxPayload()+1), b.LocalAddr()); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := a.WriteTo(nil, &net.TCPAddr{}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a TCP address: %v", err)
	}
	if _, err := a.WriteToAddrPort([]byte("0123456789"), b.local); err != nil {
		t.Fatal(err)
	}
	if n, _, err := b.ReadFrom(make([]byte, 4)); n != 4 || err != nil {
		t.Errorf("a short buffer: %d, %v", n, err)
	}
}

// sent counts the packets of the device.
func sent(t *testing.T, p *PacketConn) uint64 { return loopback.Counter(t, p.dev, "sent_pkts") }

// A socket can send to itself.
func TestPacketToSelf(t *testing.T) {
	a := packetConn(t, Options{})
	exchange(t, a, a, []byte("over UDP"))
	exchange(t, a, a, []byte("over the queue pair"))
}

func TestPacketDeadlines(t *testing.T) {
	for _, spin := range []time.Duration{-1, Busy} {
		a := packetConn(t, Options{Spin: spin})
		buf := make([]byte, 10)
		a.SetReadDeadline(time.Now().Add(-time.Second))
		if _, _, err := a.ReadFrom(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("past: %v", err)
		}
		a.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, _, err := a.ReadFrom(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("future: %v", err)
		}
		a.SetWriteDeadline(time.Now().Add(-time.Second))
		if _, err := a.WriteTo(buf, a.LocalAddr()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		a.SetDeadline(time.Time{})
		done := make(chan error, 1)
		go func() {
			_, _, err := a.ReadFrom(buf)
			done <- err
		}()
		a.SetDeadline(time.Now())
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("moved: %v", err)
		}
		a.SetDeadline(time.Time{})
		go func() {
			_, _, err := a.ReadFrom(buf)
			done <- err
		}()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if _, err := a.WriteTo(buf, a.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	}
}

// Many goroutines read and write at once; each datagram that arrives is whole.
func TestPacketsConcurrently(t *testing.T) {
	a, b := packetConn(t, Options{SendQueue: 16}), packetConn(t, Options{})
	exchange(t, a, b, []byte{0})
	var senders, receivers sync.WaitGroup
	for range 2 {
		receivers.Go(func() {
			buf := make([]byte, rsocket.MaxDatagram)
			for {
				n, from, err := b.ReadFromAddrPort(buf)
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if from != a.local || n < 1 || !bytes.Equal(buf[:n], bytes.Repeat(buf[:1], n)) {
					t.Errorf("%d bytes from %v", n, from)
				}
			}
		})
	}
	for i := range 4 {
		senders.Go(func() {
			data := bytes.Repeat([]byte{byte(i)}, 100*(i+1))
			for range 200 {
				if _, err := a.WriteToAddrPort(data, b.local); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	b.Close()
	receivers.Wait()
}

// Garbage that is sent to the UDP port does no harm.
func TestPacketGarbage(t *testing.T) {
	a := packetConn(t, Options{})
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a.local))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("garbage"))
	c.Write(rsocket.UDPHeader{Op: 9, QPN: 1, Addr: netip.MustParseAddr("::1")}.Append(nil))
	c.Write(append(rsocket.UDPHeader{Op: rsocket.UDPData, QPN: 1, Addr: a.local.Addr()}.Append(nil), "good"...))
	buf := make([]byte, 100)
	n, addr, err := a.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "good" || addr.String() != c.LocalAddr().String() {
		t.Errorf("%q from %v, %v", buf[:n], addr, err)
	}
}

func TestListenPacketErrors(t *testing.T) {
	a := packetConn(t, Options{})
	if _, err := ListenPacket(t.Context(), a.dev, a.local.String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port in use: %v", err)
	}
	if _, err := ListenPacket(t.Context(), a.dev, "203.0.113.77:0"); !errors.Is(err, verbs.ErrNotFound) {
		t.Errorf("an address of others: %v", err)
	}
	for _, address := range []string{"nonsense", "", ":99999", ":nonsense"} {
		if _, err := ListenPacket(t.Context(), a.dev, address); !errors.Is(err, verbs.ErrInvalid) ||
			!strings.Contains(err.Error(), strconv.Quote(address)) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
