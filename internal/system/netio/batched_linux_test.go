// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// switches sums the voluntary context switches of all threads of this process:
// each is a thread that went to sleep, and so had been woken.
func switches(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return sum
}

// TestPollingWakesNobody compares with a socket that is in Go's network
// poller, where each packet wakes the thread that sits in epoll_wait.
func TestPollingWakesNobody(t *testing.T) {
	// That thread sits there only if some goroutine waits for input.
	other, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(first, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go other.Read(make([]byte, 1))

	sender := listen(t, first, Options{})
	tr := sender.NewTrain()
	const packets = 1000
	count := func(to netip.AddrPort, poll func() bool) int {
		before := switches(t)
		for range packets {
			build(t, tr, to, []int{1}, []byte{1})
			if err := sender.Send(tr); err != nil {
				t.Fatal(err)
			}
			for !poll() {
			}
			for end := time.Now().Add(50 * time.Microsecond); time.Now().Before(end); {
			}
		}
		return switches(t) - before
	}

	s := listen(t, first, Options{})
	into := make([]Datagrams, s.Features().Batch)
	// It must be quiet also after waits of every kind.
	build(t, tr, s.LocalAddr(), []int{1}, []byte{1})
	send(t, sender, tr)
	receive(t, s, 1)
	s.SetDeadline(time.Now().Add(time.Millisecond))
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Time{})

	known, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(first, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	raw, err := known.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	buffer := make([]byte, 16)
	control := func(fd uintptr) { got, _, _ = syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT) }

	// A busy machine may keep that thread from running, so try again. With one processor it
	// hardly ever sleeps: then there is nothing to compare with.
	var own, poller int
	compared := false
	for range 5 {
		poller = count(known.LocalAddr().(*net.UDPAddr).AddrPort(), func() bool {
			got = 0
			return raw.Control(control) == nil && got > 0
		})
		own = count(s.LocalAddr(), func() bool {
			n, err := s.Recv(into)
			if err != nil {
				t.Fatal(err)
			}
			return n > 0
		})
		t.Logf("1,000 packets: %d wake-ups with Go's poller, %d here", poller, own)
		if own < poller/4 {
			return
		}
		compared = compared || poller > packets/2
	}
	if !compared {
		t.Skip("this machine is too busy: there are few wake-ups with Go's poller, too")
	}
	t.Errorf("%d wake-ups in 1,000 polled packets; Go's poller has %d", own, poller)
}

func TestRecvHeaders(t *testing.T) {
	for _, addr := range []netip.Addr{first, six} {
		a, b := listen(t, addr, Options{}), listen(t, addr, Options{})
		tr := a.NewTrain()
		if err := b.RecvHeaders(true); err != nil {
			t.Fatal(err)
		}
		build(t, tr, b.LocalAddr(), []int{100, 100, 10}, make([]byte, 210))
		send(t, a, tr)
		for _, r := range receive(t, b, 3) {
			if !r.HasHeaders || r.TTL != 64 || r.TOS != 0 || r.To != addr || r.SegmentSize != 100 {
				t.Errorf("%+v", r.Datagrams)
			}
		}
		if err := b.RecvHeaders(false); err != nil {
			t.Fatal(err)
		}
		send(t, a, tr)
		for _, r := range receive(t, b, 3) {
			if r.HasHeaders || r.To != addr {
				t.Errorf("%+v", r.Datagrams)
			}
		}
	}
	// On a wildcard address only the packet itself tells its destination.
	a := listen(t, first, Options{})
	b := listen(t, netip.IPv4Unspecified(), Options{})
	if err := b.RecvHeaders(true); err != nil {
		t.Fatal(err)
	}
	tr := a.NewTrain()
	to := netip.MustParseAddr("127.0.0.9")
	build(t, tr, netip.AddrPortFrom(to, b.LocalAddr().Port()), []int{1}, []byte{1})
	send(t, a, tr)
	if r := receive(t, b, 1)[0]; r.To != to {
		t.Errorf("came to %v, want %v", r.To, to)
	}
}

// TestRecvTOS has arrivals show their TOS, and with it routers' marks of congestion.
func TestRecvTOS(t *testing.T) {
	for _, addr := range []netip.Addr{first, six} {
		a, b := listen(t, addr, Options{}), listen(t, addr, Options{})
		for _, asked := range []bool{false, true} {
			if asked {
				if err := b.RecvTOS(); err != nil {
					t.Fatal(err)
				}
			}
			for _, tos := range []uint8{0, 2, 0x63} {
				tr := a.NewTrain()
				build(t, tr, b.LocalAddr(), []int{100, 100, 10}, make([]byte, 210))
				tr.Mark(0, tos)
				send(t, a, tr)
				want := uint8(0)
				if asked {
					want = tos
				}
				for _, r := range receive(t, b, 3) {
					if r.TOS != want || r.HasHeaders || r.To != addr {
						t.Errorf("TOS %#x of %#x, asked for %v, headers %v, to %v", r.TOS, tos, asked, r.HasHeaders,
							r.To)
					}
				}
			}
		}
		b.Close()
		if err := b.RecvTOS(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

func TestFeatures(t *testing.T) {
	f := listen(t, first, Options{RecvBuffer: 100_000, SendBuffer: 50_000}).Features()
	if f.RecvBuffer != 200_000 || f.SendBuffer != 100_000 {
		t.Errorf("%+v, want twice the buffers asked for", f)
	}
	if f.MaxSegments != 64 && f.MaxSegments != 128 || f.Batch != batch {
		t.Errorf("%+v", f)
	}
	s := listen(t, first, Options{})
	tr := s.NewTrain()
	sizes := make([]int, s.Features().MaxSegments)
	for i := range sizes {
		sizes[i] = 80
	}
	build(t, tr, s.LocalAddr(), sizes, make([]byte, 80*len(sizes)))
	send(t, s, tr)
	receive(t, s, len(sizes))
}

// TestWithoutGSO has trains leave one by one, as on a network device that has
// no checksum offload.
func TestWithoutGSO(t *testing.T) {
	a, b := listen(t, first, Options{}), listen(t, first, Options{})
	a.impl.(*batched).noGSO.Store(true)
	if a.Features().GSO {
		t.Error("Features has GSO")
	}
	tr := a.NewTrain()
	stream := []byte("abcdefghij")
	build(t, tr, b.LocalAddr(), []int{4, 4, 2}, stream)
	for range 2 { // a train that was sent can be sent again
		send(t, a, tr)
		var got string
		for _, r := range receive(t, b, 3) {
			got += string(r.data) + " "
		}
		if got != "abcd efgh ij " {
			t.Errorf("got %q", got)
		}
	}
}

func TestTooLong(t *testing.T) {
	s := listen(t, six, Options{})
	tr := s.NewTrain()
	build(t, tr, s.LocalAddr(), []int{MaxPayload}, make([]byte, MaxPayload))
	if err := s.Send(tr); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("a datagram longer than the loopback's MTU: %v", err)
	}
}

// TestCloseFreesThePort also finds descriptors that a Close leaves behind.
func TestCloseFreesThePort(t *testing.T) {
	s := listen(t, first, Options{})
	addr := s.LocalAddr()
	s.Close()
	s, err := Listen(addr, Options{})
	if err != nil {
		t.Fatalf("the port is still in use: %v", err)
	}
	s.Close()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	for range 100 {
		s, err := Listen(addr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	for end := time.Now().Add(patience); open() > before; time.Sleep(time.Millisecond) {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, %d before", open(), before)
		}
	}
}

// TestFree gives the descriptors of a closed socket to other files: no call reaches those.
func TestFree(t *testing.T) {
	s := listen(t, first, Options{})
	peer := listen(t, first, Options{})
	c := connect(t, s, peer.LocalAddr(), marks{})
	lone := func(s *Socket) *Train {
		tr := s.NewTrain()
		build(t, tr, peer.LocalAddr(), []int{4}, []byte("lone"))
		return tr
	}
	waits := make(chan error, 1)
	go func() { waits <- s.Wait() }()
	s.Free() // of an open socket: nothing
	send(t, s, lone(s))
	s.Close()
	if err := <-waits; err != net.ErrClosed {
		t.Errorf("a wait ended with %v", err)
	}
	own := []int{(*s.impl.(*batched).ports.Load())[0].fd, c.fd, int(s.impl.(*batched).waiter.event.FD())}
	s.Free()
	for _, fd := range own {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("descriptor %d is still open: %v", fd, err)
		}
	}
	var others []*Socket // one of which has each number
	for range own {
		others = append(others, listen(t, first, Options{}))
	}
	calls := map[string]func() error{
		"Send":    func() error { return s.Send(lone(s)) },
		"Recv":    func() error { _, err := s.Recv(make([]Datagrams, 1)); return err },
		"Wait":    s.Wait,
		"Recount": c.Recount,
		"peer":    func() error { return c.Send(lone(s)) },
		"TOS":     s.RecvTOS,
		"headers": func() error { return s.RecvHeaders(true) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Park(time.Hour)
	s.Wake()
	c.Close()
	s.Close()
	s.Free()
	for _, o := range others {
		send(t, o, lone(o))
		o.Wake()
		if err := o.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// inNamespace runs f in a network namespace of its own, which has an interface
// with 10.78.0.1, 10.78.0.2, fd78::1 and fd78::2. It needs root.
func inNamespace(t *testing.T, f func(t *testing.T)) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	runtime.LockOSThread() // never undone: the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	loopback.SetUp(t,
		"link set lo up", "link add left type veth peer name right",
		"addr add 10.78.0.1/24 dev left", "addr add 10.78.0.2/24 dev left",
		"addr add fd78::1/64 dev left nodad", "addr add fd78::2/64 dev left nodad",
		"link set left up", "link set right up",
	)
	// Linux adds the routes of IPv6 a little later than the addresses.
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		out, err := exec.Command("ip", "-6", "route", "show", "table", "all", "dev", "left").CombinedOutput()
		if err == nil && bytes.Contains(out, []byte("ff00::/8")) && bytes.Contains(out, []byte("local fd78::2")) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("routes of the namespace: %v\n%s", err, out)
		}
	}
	f(t)
}

func TestMulticastOnInterface(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		for _, kind := range kinds {
			for _, c := range [][3]string{
				{"10.78.0.1", "10.78.0.2", "224.0.0.251"}, {"10.78.0.1", "10.78.0.2", "239.1.2.3"},
				{"fd78::1", "fd78::2", "ff02::1234"}, {"fd78::1", "fd78::2", "ff0e::1234"},
				{"127.0.0.2", "127.0.0.2", "224.0.0.251"},
			} {
				t.Log(kind.name, c)
				testMulticast(t, netip.MustParseAddr(c[0]), netip.MustParseAddr(c[1]), netip.MustParseAddr(c[2]),
					kind.a, kind.b)
			}
		}
	})
}

// TestErrAgain fills a socket's buffer with datagrams that wait for a neighbour
// that does not exist.
func TestErrAgain(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		// The system gives a neighbour up after three questions, a second apart unless told otherwise.
		if out, err := exec.Command("ip", "ntable", "change", "name", "arp_cache", "dev", "left", "retrans",
			"50").CombinedOutput(); err != nil {
			t.Logf("%v: %s", err, out)
		}
		s := listen(t, netip.MustParseAddr("10.78.0.1"), Options{SendBuffer: 8192})
		tr := s.NewTrain()
		build(t, tr, netip.MustParseAddrPort("10.78.0.99:4791"), []int{1000}, make([]byte, 1000))
		sent := 0
		var err error
		for ; err == nil && sent < 1000; sent++ {
			err = s.Send(tr)
		}
		if !errors.Is(err, ErrAgain) {
			t.Fatalf("after %d datagrams: %v", sent, err)
		}
		s.SetDeadline(time.Now().Add(patience))
		for errors.Is(err, ErrAgain) {
			before := time.Now()
			if err := s.WaitWritable(); err != nil {
				t.Fatal(err)
			}
			if time.Since(before) > patience/2 {
				t.Fatal("never writable again")
			}
			err = s.Send(tr)
		}
		if err != nil && !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { err = s.Send(tr) }); n != 0 {
			t.Errorf("%v allocations in a Send that fails with %v", n, err)
		}
	})
}

// TestDeadlinesOfAllKinds has near deadlines, which poll observes, far ones,
// which a timer does, and changes from one to the other during the wait.
func TestDeadlinesOfAllKinds(t *testing.T) {
	s := listen(t, first, Options{})
	for _, at := range []time.Duration{100 * time.Microsecond, pollHorizon - time.Millisecond,
		pollHorizon + time.Millisecond, 4 * pollHorizon} {
		for _, then := range []time.Duration{0, time.Millisecond, pollHorizon, 3 * pollHorizon, 6 * pollHorizon} {
			t.Run(fmt.Sprintf("%v then %v", at, then), func(t *testing.T) {
				begin := time.Now()
				want := begin.Add(at)
				s.SetDeadline(want)
				done := make(chan error)
				go func() { done <- s.Wait() }()
				if then != 0 {
					time.Sleep(at / 2)
					want = time.Now().Add(then)
					s.SetDeadline(want)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				// If the change came too late, the first deadline counts.
				if now := time.Now(); now.Before(want) && now.Before(begin.Add(at)) {
					t.Errorf("returned %v too early", want.Sub(now))
				}
			})
		}
	}
}
