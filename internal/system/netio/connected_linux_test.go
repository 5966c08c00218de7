// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

func connect(t *testing.T, s *Socket, to netip.AddrPort, own marks) *Connected {
	t.Helper()
	if err := loopback.TellsIdentification(); err != nil {
		t.Skip(err)
	}
	c, err := s.Connect(to, uint8(own.ttl), own.tos)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// counts makes sure that the next datagram has the identification that it should.
func (c *Connected) counts(t *testing.T) {
	t.Helper()
	if !c.local.Addr().Is4() {
		return
	}
	sink, to, err := newSink(c.local.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sink)
	id, err := c.probe(to)
	if err != nil {
		t.Fatal(err)
	}
	if id != c.id {
		t.Fatalf("the next datagram has identification %#x, not %#x", id, c.id)
	}
	c.id++
}

// TestConnected sends everything that one can send and looks each time whether the
// identification was counted right.
func TestConnected(t *testing.T) {
	for _, addr := range []netip.Addr{second, six} {
		for _, gso := range []bool{true, false} {
			s, peer := listen(t, addr, Options{}), listen(t, addr, Options{})
			c := connect(t, s, peer.LocalAddr(), marks{})
			if gso && !s.Features().GSO {
				continue
			}
			s.impl.(*batched).noGSO.Store(!gso)
			c.counts(t)
			tr := s.NewTrain()
			stream := bytes.Repeat([]byte("connected"), 4096)
			for _, sizes := range [][]int{{1}, {64}, {100, 100, 40}, {64}, {1000, 1000}, {9}} {
				for _, mark := range [][2]uint8{{0, 0}, {3, 0}, {0, 8}, {77, 4}} {
					build(t, tr, peer.LocalAddr(), sizes, stream)
					tr.Mark(mark[0], mark[1])
					if err := c.Send(tr); err != nil {
						t.Fatal(err)
					}
					for i, d := range receive(t, peer, len(sizes)) {
						if d.From != c.LocalAddr() || len(d.data) != sizes[i] {
							t.Fatalf("datagram %d: %d bytes from %v, want %d from %v", i, len(d.data), d.From, sizes[i],
								c.LocalAddr())
						}
					}
					c.counts(t)
				}
			}
			if c.LocalAddr().Addr() != s.LocalAddr().Addr() || c.LocalAddr().Port() == s.LocalAddr().Port() {
				t.Errorf("sends from %v beside %v", c.LocalAddr(), s.LocalAddr())
			}
		}
	}
}

// TestConnectedMarks holds that a socket made for some marks needs no control messages to send with
// them, and that these and all others arrive.
func TestConnectedMarks(t *testing.T) {
	for _, addr := range []netip.Addr{second, six} {
		for _, own := range []marks{{}, {ttl: 255}, {tos: 106}, {255, 106}, {64, 0}} {
			s, peer := listen(t, addr, Options{}), listen(t, addr, Options{})
			if err := peer.RecvHeaders(true); err != nil {
				t.Fatal(err)
			}
			c := connect(t, s, peer.LocalAddr(), own)
			tr := s.NewTrain()
			for _, m := range []marks{own, {}, {3, 0}, {0, 8}, {255, 106}, {255, 8}, own} {
				build(t, tr, peer.LocalAddr(), []int{64}, make([]byte, 64))
				tr.Mark(uint8(m.ttl), m.tos)
				if m == own {
					var control sendControl
					if s.impl.(*batched).mark(&control, tr, c.marks); control.used > 0 {
						t.Errorf("%v: a socket made for %+v sends them in control messages", addr, own)
					}
				}
				if err := c.Send(tr); err != nil {
					t.Fatal(err)
				}
				want := m
				if want.ttl == 0 {
					want.ttl = s.impl.(*batched).marks.ttl
				}
				if d := receive(t, peer, 1)[0]; !d.HasHeaders || int(d.TTL) != want.ttl || d.TOS != want.tos {
					t.Errorf("%v: sent %+v by a socket made for %+v: TTL %d and TOS %d arrived", addr, m, own, d.TTL,
						d.TOS)
				}
				c.counts(t)
			}
		}
	}
}

// TestConnectedRefused sends to a port that no socket has at first.
func TestConnectedRefused(t *testing.T) {
	for _, addr := range []netip.Addr{second, six} {
		s, peer := listen(t, addr, Options{}), listen(t, addr, Options{})
		to := peer.LocalAddr()
		peer.Close()
		c := connect(t, s, to, marks{})
		tr := s.NewTrain()
		hello := func() error {
			build(t, tr, to, []int{5}, []byte("hello"))
			return c.Send(tr)
		}
		if err := hello(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; {
			err := hello()
			if errors.Is(err, syscall.ECONNREFUSED) {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatalf("a port that nobody has: %v", err)
			}
		}
		if err := c.Recount(); err != nil {
			t.Fatal(err)
		}
		c.counts(t)
		peer, err := Listen(to, Options{})
		if err != nil {
			t.Skipf("somebody took the port: %v", err)
		}
		defer peer.Close()
		if err := hello(); err != nil {
			t.Fatal(err)
		}
		if d := receive(t, peer, 1); string(d[0].data) != "hello" {
			t.Errorf("received %q", d[0].data)
		}
		c.counts(t)
	}
}

func TestConnectedClose(t *testing.T) {
	s, peer := listen(t, first, Options{}), listen(t, first, Options{})
	c, other := connect(t, s, peer.LocalAddr(), marks{}), connect(t, s, peer.LocalAddr(), marks{})
	tr := s.NewTrain()
	build(t, tr, peer.LocalAddr(), []int{1}, []byte{1})
	c.Close()
	c.Close()
	if err := c.Send(tr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := c.Recount(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := other.Send(tr); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := other.Send(tr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the socket's Close: %v", err)
	}
	other.Close()
	if _, err := s.Connect(peer.LocalAddr(), 0, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the socket's Close: %v", err)
	}
}

func TestConnectErrors(t *testing.T) {
	wildcard, err := Listen(netip.MustParseAddrPort("0.0.0.0:0"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer wildcard.Close()
	s := listen(t, first, Options{})
	for _, c := range []struct {
		from *Socket
		to   string
		want error
	}{
		{listen(t, first, Options{Plain: true}), "127.0.0.1:9", errors.ErrUnsupported},
		{wildcard, "127.0.0.1:9", errors.ErrUnsupported},
		{s, "239.1.2.3:9", errors.ErrUnsupported},
		{s, "[::1]:9", errFamily},
	} {
		if _, err := c.from.Connect(netip.MustParseAddrPort(c.to), 0, 0); !errors.Is(err, c.want) {
			t.Errorf("from %v to %s: %v, want %v", c.from.LocalAddr(), c.to, err, c.want)
		}
	}
}

// TestConnectElsewhere connects in a thread that has gone to another network namespace.
func TestConnectElsewhere(t *testing.T) {
	s := listen(t, first, Options{})
	connect(t, s, s.LocalAddr(), marks{}).Close()
	own := (*s.impl.(*batched).ports.Load())[0].fd
	if err := sameNamespace(own, own); err != nil {
		t.Fatal(err)
	}
	done := make(chan [2]error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			close(done)
			return
		}
		_, err := s.Connect(s.LocalAddr(), 0, 0) // there the interface is down
		fd, serr := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if serr == nil {
			serr = sameNamespace(fd, own)
			unix.Close(fd)
		}
		done <- [2]error{err, serr}
	}()
	switch errs, ok := <-done; {
	case !ok:
		t.Skip("no network namespace can be made here")
	case errs[0] == nil || !errors.Is(errs[1], errors.ErrUnsupported):
		t.Errorf("%v and %v", errs[0], errs[1])
	}
}

// TestWaitForRoom waits for a full socket, which is not the receiving one.
func TestWaitForRoom(t *testing.T) {
	s := listen(t, first, Options{})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	for err == nil {
		_, err = unix.Write(pair[0], make([]byte, 1000))
	}
	s.impl.(*batched).full.Store(int32(pair[0]))
	done := make(chan error)
	go func() { done <- s.WaitWritable() }()
	select {
	case <-done:
		t.Fatal("did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	for err = nil; err == nil; {
		_, err = unix.Read(pair[1], make([]byte, 1000))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// datagram is an empty one from 127.0.0.4:4096 to 127.0.0.4:8192 with identification 0x1234.
const datagram = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00" +
	"\x45\x00\x00\x1c\x12\x34\x40\x00\x40\x11\x00\x00\x7f\x00\x00\x04\x7f\x00\x00\x04" +
	"\x10\x00\x20\x00\x00\x08\x00\x00"

func FuzzIdentification(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	from, to := netip.AddrPortFrom(second, 0x1000), netip.AddrPortFrom(second, 0x2000)
	if id, ok := identification([]byte(datagram), from, to); !ok || id != 0x1234 {
		f.Fatalf("%#x, %v", id, ok)
	}
	f.Add([]byte(datagram))
	for i := range len(datagram) {
		f.Add([]byte(datagram[:i]))
	}
	for _, at := range []int{12, 14, 23, 26, 30, 34, 36} {
		b := []byte(datagram)
		b[at] ^= 1
		if _, ok := identification(b, from, to); ok {
			f.Errorf("taken with another byte %d", at)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, ok := identification(b, from, to); ok && !bytes.Equal(b[18:20], []byte{byte(id >> 8), byte(id)}) {
			t.Errorf("%#x out of % x", id, b)
		}
	})
}
