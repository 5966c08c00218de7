// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	first  = netip.MustParseAddr("127.0.0.1")
	second = netip.MustParseAddr("127.0.0.4")
	six    = netip.MustParseAddr("::1")
)

// patience is how long a test waits for a datagram that must come.
const patience = 2 * time.Minute

func listen(t testing.TB, addr netip.Addr, o Options) *Socket {
	t.Helper()
	s, err := Listen(netip.AddrPortFrom(addr, 0), o)
	if err != nil {
		if addr.Is6() && errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			t.Skipf("this host has no %v: %v", addr, err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// build makes a train of the given sizes, its bytes from one stream, each
// datagram in several pieces.
func build(t testing.TB, tr *Train, to netip.AddrPort, sizes []int, stream []byte) {
	t.Helper()
	tr.Reset(to)
	at := 0
	for i, size := range sizes {
		if !tr.Begin(size) {
			t.Fatalf("datagram %d of %d bytes cannot join", i, size)
		}
		half := size / 3
		tr.Add(stream[at : at+half])
		tr.Add(bytes.Clone(stream[at+half : at+size]))
		at += size
	}
}

func send(t testing.TB, s *Socket, tr *Train) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := s.Send(tr)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrAgain) || time.Now().After(end) {
			t.Fatal(err)
		}
		if err := s.WaitWritable(); err != nil {
			t.Fatal(err)
		}
	}
}

// received is a datagram, its bytes copied.
type received struct {
	Datagrams
	data []byte
}

// TestDualStack: a socket on the IPv6 wildcard address takes trains of both families and answers them, with
// [Options.DualStack] alone.
func TestDualStack(t *testing.T) {
	for _, plain := range []bool{false, true} {
		both := listen(t, netip.IPv6Unspecified(), Options{Plain: plain, DualStack: true, Fragments: true})
		for _, addr := range []netip.Addr{first, six} {
			s := listen(t, addr, Options{Plain: plain})
			out, back := s.NewTrain(), both.NewTrain()
			build(t, out, netip.AddrPortFrom(addr, both.LocalAddr().Port()), []int{900, 900, 20}, make([]byte, 1820))
			send(t, s, out)
			got := receive(t, both, 3)
			if got[0].From != s.LocalAddr() || len(got[2].data) != 20 {
				t.Errorf("plain %v: %d bytes from %v, want 20 from %v", plain, len(got[2].data), got[0].From,
					s.LocalAddr())
			}
			build(t, back, got[0].From, []int{700, 700}, make([]byte, 1400))
			send(t, both, back)
			if got := receive(t, s, 2); len(got[1].data) != 700 {
				t.Errorf("plain %v: %d bytes came back to %v", plain, len(got[1].data), addr)
			}
		}
		only6 := listen(t, netip.IPv6Unspecified(), Options{Plain: plain})
		out := only6.NewTrain()
		build(t, out, netip.AddrPortFrom(first, 9), []int{1}, make([]byte, 1))
		if err := only6.Send(out); err != errFamily {
			t.Errorf("plain %v: a socket for IPv6 alone sends to %v: %v", plain, first, err)
		}
	}
}

// receive gets n datagrams, in the order of their arrival.
func receive(t testing.TB, s *Socket, n int) []received {
	t.Helper()
	var all []received
	into := make([]Datagrams, s.Features().Batch)
	end := time.Now().Add(patience)
	s.SetDeadline(end)
	for len(all) < n {
		got, err := s.Recv(into)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range into[:got] {
			if d.Truncated {
				t.Fatal("truncated")
			}
			before := len(all)
			for data := d.Data; ; {
				size := min(d.SegmentSize, len(data))
				all = append(all, received{d, bytes.Clone(data[:size])})
				if data = data[size:]; len(data) == 0 {
					break
				}
			}
			if d.Len() != len(all)-before {
				t.Fatalf("Len is %d for %d bytes of segment size %d", d.Len(), len(d.Data), d.SegmentSize)
			}
		}
		if got == 0 {
			if time.Now().After(end) {
				t.Fatalf("%d of %d datagrams came", len(all), n)
			}
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.SetDeadline(time.Time{})
	return all
}

// kinds are the pairs of implementations that talk to each other.
var kinds = []struct {
	name string
	a, b Options
}{
	{"batched", Options{}, Options{}},
	{"plain", Options{Plain: true}, Options{Plain: true}},
	{"batched to plain", Options{}, Options{Plain: true}},
	{"plain to batched", Options{Plain: true}, Options{}},
}

func TestTrainsArriveWhole(t *testing.T) {
	repeat := func(n, size, last int) []int {
		sizes := make([]int, 0, n+1)
		for range n {
			sizes = append(sizes, size)
		}
		if last > 0 {
			sizes = append(sizes, last)
		}
		return sizes
	}
	shapes := [][]int{
		{1}, {4112}, {MaxPayload}, {1, 1}, {4112, 1}, {4112, 4111}, {2, 1},
		repeat(15, 4112, 0), repeat(15, 4112, 16), repeat(62, 1040, 0), repeat(64, 80, 0), repeat(63, 80, 24),
		repeat(2, 30000, 5507),
	}
	stream := make([]byte, MaxPayload)
	for i := range stream {
		stream[i] = byte(rand.Uint32())
	}
	for _, kind := range kinds {
		for _, addr := range []netip.Addr{first, netip.MustParseAddr("127.0.0.2"), six} {
			t.Run(fmt.Sprintf("%s/%v", kind.name, addr), func(t *testing.T) {
				a, b := listen(t, addr, kind.a), listen(t, addr, kind.b)
				tr := a.NewTrain()
				for _, sizes := range shapes {
					if addr.Is6() && sizes[0] == MaxPayload {
						continue // with an IPv6 header it exceeds the loopback's MTU
					}
					build(t, tr, b.LocalAddr(), sizes, stream)
					send(t, a, tr)
					at := 0
					for i, r := range receive(t, b, len(sizes)) {
						if !bytes.Equal(r.data, stream[at:at+sizes[i]]) {
							t.Fatalf("%d datagrams of %d: datagram %d (%d bytes) differs", len(sizes), sizes[0], i,
								len(r.data))
						}
						if r.From != a.LocalAddr() || r.To != addr {
							t.Fatalf("came from %v to %v, want %v to %v", r.From, r.To, a.LocalAddr(), addr)
						}
						at += sizes[i]
					}
				}
			})
		}
	}
}

func TestEcho(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			a, b := listen(t, first, kind.a), listen(t, netip.MustParseAddr("127.0.0.3"), kind.b)
			failed := make(chan error, 1)
			go func() {
				into := make([]Datagrams, b.Features().Batch)
				tr := b.NewTrain()
				for {
					n, err := b.Recv(into)
					if n == 0 && err == nil {
						err = b.Wait()
					}
					for _, d := range into[:n] {
						tr.Reset(d.From)
						tr.Begin(len(d.Data))
						tr.Add(d.Data)
						err = errors.Join(err, b.Send(tr))
					}
					if err != nil {
						failed <- err
						return
					}
				}
			}()
			tr := a.NewTrain()
			for i := range 200 {
				message := []byte(fmt.Sprintf("message %d", i))
				build(t, tr, b.LocalAddr(), []int{len(message)}, message)
				send(t, a, tr)
				if got := receive(t, a, 1)[0].data; !bytes.Equal(got, message) {
					t.Fatalf("echo %q, want %q", got, message)
				}
			}
			b.Close()
			if err := <-failed; !errors.Is(err, net.ErrClosed) {
				t.Fatalf("the echo ended with %v", err)
			}
		})
	}
}

func TestTrainRules(t *testing.T) {
	var tr Train
	to := netip.AddrPortFrom(first, 4791)
	tr.Reset(to)
	if tr.Begin(0) || tr.Begin(-1) || tr.Begin(MaxPayload+1) {
		t.Error("a datagram of an impossible size may begin")
	}
	for range 3 {
		if !tr.Begin(100) {
			t.Fatal("equal datagrams cannot join")
		}
	}
	if tr.Begin(101) {
		t.Error("a longer datagram may join")
	}
	if !tr.Begin(99) || tr.Begin(99) || tr.Begin(1) {
		t.Error("a shorter datagram must join, and end the train")
	}
	if tr.Len() != 4 || tr.Size() != 399 || tr.To() != to {
		t.Errorf("Len %d, Size %d, To %v", tr.Len(), tr.Size(), tr.To())
	}
	tr.Reset(to)
	for tr.Begin(1) {
	}
	if tr.Len() != defaultSegments {
		t.Errorf("a zero Train takes %d", tr.Len())
	}
	tr.Reset(to)
	for tr.Begin(30000) {
	}
	if tr.Len() != 2 || !tr.Begin(MaxPayload-60000) {
		t.Errorf("%d of 30,000 bytes fit, or the rest does not", tr.Len())
	}
}

func TestAddMergesNeighbours(t *testing.T) {
	memory := []byte("headerpayloadicrcheaderpayloadicrc")
	other := []byte("payload")
	var tr Train
	tr.Reset(netip.AddrPortFrom(first, 1))
	tr.Begin(17)
	tr.Add(memory[:6])
	tr.Add(memory[6:13])
	tr.Add(nil)
	tr.Add(memory[13:17])
	tr.Begin(17)
	tr.Add(memory[17:23])
	tr.Add(other)
	tr.Add(memory[30:34])
	if len(tr.pieces) != 3 {
		t.Errorf("%d pieces, want 3", len(tr.pieces))
	}
	var got [17]byte
	for i, want := range []string{"headerpayloadicrc", "headerpayloadicrc"} {
		if n, _ := tr.copySegment(i, got[:], nil); string(got[:n]) != want {
			t.Errorf("segment %d is %q", i, got[:n])
		}
	}
}

func TestUnfilledTrainIsRefused(t *testing.T) {
	for _, o := range []Options{{}, {Plain: true}} {
		s := listen(t, first, o)
		tr := s.NewTrain()
		tr.Reset(s.LocalAddr())
		tr.Begin(10)
		tr.Add(make([]byte, 9))
		if err := s.Send(tr); err == nil {
			t.Errorf("%+v: 9 bytes went for 10", o)
		}
	}
}

func TestErrorsAreReadable(t *testing.T) {
	for _, o := range []Options{{}, {Plain: true}} {
		t.Run(fmt.Sprintf("plain %v", o.Plain), func(t *testing.T) {
			_, err := Listen(netip.MustParseAddrPort("203.0.113.77:4791"), o)
			if !errors.Is(err, syscall.EADDRNOTAVAIL) || !strings.Contains(err.Error(), "203.0.113.77:4791") {
				t.Errorf("an address of another host: %v", err)
			}
			s := listen(t, first, o)
			_, err = Listen(s.LocalAddr(), o)
			if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), s.LocalAddr().String()) {
				t.Errorf("a port in use: %v", err)
			}
			if _, err = Listen(netip.AddrPort{}, o); err == nil {
				t.Error("no address: no error")
			}
			tr := s.NewTrain()
			build(t, tr, netip.AddrPortFrom(six, 9), []int{1}, []byte{0})
			if err := s.Send(tr); !errors.Is(err, errFamily) {
				t.Errorf("IPv6 destination on an IPv4 socket: %v", err)
			}
			if err := s.JoinGroup(second); err == nil {
				t.Error("joined a unicast address")
			}
		})
	}
}

func TestWake(t *testing.T) {
	for _, o := range []Options{{}, {Plain: true}} {
		t.Run(fmt.Sprintf("plain %v", o.Plain), func(t *testing.T) {
			s := listen(t, first, o)
			done := make(chan error)
			wait := func() { done <- s.Wait() }
			ended := func(what string) {
				t.Helper()
				select {
				case err := <-done:
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				case <-time.After(patience):
					t.Fatalf("%s: still waiting", what)
				}
			}
			s.Wake()
			s.Wake()
			go wait()
			ended("a wake-up before the wait")
			go wait()
			select {
			case <-done:
				t.Fatal("two wake-ups before a wait counted twice")
			case <-time.After(20 * time.Millisecond):
			}
			s.Wake()
			ended("a wake-up during the wait")

			go wait()
			time.Sleep(10 * time.Millisecond)
			s.SetDeadline(time.Now().Add(10 * time.Millisecond))
			ended("a deadline set during the wait")
			go wait()
			ended("a deadline that has passed")
			s.SetDeadline(time.Now().Add(time.Hour))
			go wait()
			time.Sleep(5 * time.Millisecond)
			s.SetDeadline(time.Now().Add(-time.Hour))
			ended("a deadline moved into the past")
			s.SetDeadline(time.Time{})
			go wait()
			select {
			case <-done:
				t.Fatal("no deadline, and the wait ended")
			case <-time.After(20 * time.Millisecond):
			}
			tr := s.NewTrain()
			build(t, tr, s.LocalAddr(), []int{1}, []byte{1})
			send(t, s, tr)
			ended("a datagram")
			go wait()
			ended("a datagram that is still there")
			receive(t, s, 1)
			if err := s.WaitWritable(); err != nil {
				t.Fatal(err)
			}

			go wait()
			time.Sleep(5 * time.Millisecond)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Fatalf("the wait at Close ended with %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("the second Close: %v", err)
			}
			if err := s.Wait(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait after Close: %v", err)
			}
			if _, err := s.Recv(make([]Datagrams, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Recv after Close: %v", err)
			}
			if err := s.Send(tr); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Send after Close: %v", err)
			}
			if err := s.JoinGroup(netip.MustParseAddr("224.0.0.251")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("JoinGroup after Close: %v", err)
			}
			s.Wake()
			s.SetDeadline(time.Now())
		})
	}
}

// TestNoWakeUpIsLost has a peer that sends each datagram only after the last
// one was answered, at all distances from the moment of arming.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, o := range []Options{{}, {Plain: true}} {
		a, b := listen(t, first, o), listen(t, second, o)
		const rounds = 5000
		answered := make(chan struct{})
		go func() {
			tr := a.NewTrain()
			for i := range rounds {
				<-answered
				for range rand.N(2000) { // up to some microseconds
				}
				build(t, tr, b.LocalAddr(), []int{2}, []byte{byte(i), byte(i >> 8)})
				if err := a.Send(tr); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		into := make([]Datagrams, 4)
		b.SetDeadline(time.Now().Add(6 * patience))
		for i := range rounds {
			answered <- struct{}{}
			for {
				n, err := b.Recv(into)
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					break
				}
				before := time.Now()
				if err := b.Wait(); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(before); waited > patience {
					t.Fatalf("round %d waited %v", i, waited)
				}
			}
		}
	}
}

func TestCloseWhileInUse(t *testing.T) {
	for _, o := range []Options{{}, {Plain: true}} {
		for range 20 {
			s := listen(t, first, o)
			done := make(chan struct{}, 3)
			go func() {
				for into := make([]Datagrams, 4); ; {
					if _, err := s.Recv(into); err != nil {
						break
					}
				}
				done <- struct{}{}
			}()
			go func() {
				tr := s.NewTrain()
				for payload := make([]byte, 100); ; {
					tr.Reset(s.LocalAddr())
					tr.Begin(100)
					tr.Add(payload)
					if err := s.Send(tr); err != nil && !errors.Is(err, ErrAgain) {
						break
					}
				}
				done <- struct{}{}
			}()
			go func() {
				for s.Wait() == nil {
				}
				done <- struct{}{}
			}()
			time.Sleep(time.Millisecond)
			s.Close()
			for range 3 {
				<-done
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	for _, kind := range kinds[:2] {
		t.Run(kind.name, func(t *testing.T) {
			a, b := listen(t, first, kind.a), listen(t, second, kind.b)
			tr, into := a.NewTrain(), make([]Datagrams, b.Features().Batch)
			header, payload := make([]byte, 16), make([]byte, 1024)
			b.SetDeadline(time.Now().Add(6 * patience))
			work := func() {
				tr.Reset(b.LocalAddr())
				for range 8 {
					tr.Begin(len(header) + len(payload))
					tr.Add(header)
					tr.Add(payload)
				}
				if err := a.Send(tr); err != nil {
					t.Fatal(err)
				}
				for seen := 0; seen < 8; {
					n, err := b.Recv(into)
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						if err := b.Wait(); err != nil {
							t.Fatal(err)
						}
					}
					for i := range into[:n] {
						seen += into[i].Len()
					}
				}
			}
			for range 100 {
				work() // the ring's slots get their memory
			}
			if n := testing.AllocsPerRun(200, work); n != 0 {
				t.Errorf("%v allocations a train", n)
			}
		})
	}
}

func TestMulticast(t *testing.T) {
	for _, c := range []struct{ local, group string }{
		{"127.0.0.2", "224.0.0.251"}, {"127.0.0.2", "239.1.2.3"}, {"::1", "ff01::1234"}, {"::1", "ff02::1234"},
	} {
		for _, kind := range kinds {
			t.Run(c.local+"/"+c.group+"/"+kind.name, func(t *testing.T) {
				testMulticast(t, netip.MustParseAddr(c.local), netip.MustParseAddr(c.local),
					netip.MustParseAddr(c.group), kind.a, kind.b)
			})
		}
	}
}

func testMulticast(t *testing.T, from, to, group netip.Addr, oa, ob Options) {
	a, b := listen(t, from, oa), listen(t, to, ob)
	skip := func(err error) {
		if errors.Is(err, errors.ErrUnsupported) || to.Is6() && to.IsLoopback() && errors.Is(err, syscall.ENETUNREACH) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if err := b.JoinGroup(group); err != nil {
		skip(err)
	}
	if err := b.JoinGroup(group); err != nil {
		t.Errorf("the second join: %v", err)
	}
	tr := a.NewTrain()
	toGroup := netip.AddrPortFrom(group, b.LocalAddr().Port())
	build(t, tr, toGroup, []int{5}, []byte("group"))
	if err := a.Send(tr); err != nil {
		skip(err)
	}
	if got := receive(t, b, 1)[0]; string(got.data) != "group" || got.To != group ||
		got.From.Addr().WithZone("") != from.WithZone("") {
		t.Errorf("got %q from %v to %v", got.data, got.From, got.To)
	}
	build(t, tr, b.LocalAddr(), []int{6}, []byte("direct"))
	send(t, a, tr)
	if got := receive(t, b, 1)[0]; string(got.data) != "direct" || got.To != to {
		t.Errorf("got %q to %v", got.data, got.To)
	}
	if err := b.LeaveGroup(group); err != nil {
		t.Fatal(err)
	}
	if err := b.LeaveGroup(group); err != nil {
		t.Errorf("the second leave: %v", err)
	}
	build(t, tr, toGroup, []int{5}, []byte("group"))
	_ = a.Send(tr) // for a group without members some systems refuse
	build(t, tr, b.LocalAddr(), []int{4}, []byte("last"))
	send(t, a, tr)
	if got := receive(t, b, 1)[0]; string(got.data) != "last" {
		t.Errorf("after leaving, got %q", got.data)
	}
	// And again, now that the old group socket has been closed.
	if err := b.JoinGroup(group); err != nil {
		t.Fatal(err)
	}
	build(t, tr, toGroup, []int{5}, []byte("again"))
	send(t, a, tr)
	if got := receive(t, b, 1)[0]; string(got.data) != "again" {
		t.Errorf("after joining again, got %q", got.data)
	}
}

// TestFill holds that datagrams that lie one behind the other are a train like any other, within a
// train's bounds.
func TestFill(t *testing.T) {
	stream := make([]byte, MaxPayload+1)
	to := netip.MustParseAddrPort("127.0.0.1:9")
	for _, c := range []struct{ n, segment, want int }{
		{100, 100, 1}, {300, 100, 3}, {301, 100, 4}, {299, 100, 3}, {1, 1, 1}, {defaultSegments, 1, defaultSegments},
		{MaxPayload, 30000, 3},
		{0, 100, 0}, {100, 0, 0}, {100, 101, 0}, {100, -1, 0}, {defaultSegments + 1, 1, 0}, {MaxPayload + 1, 30000, 0},
	} {
		var one, other Train
		one.Reset(to)
		other.Reset(to)
		if got := one.Fill(stream[:c.n], c.segment); got != (c.want > 0) {
			t.Errorf("%d bytes in datagrams of %d: %t", c.n, c.segment, got)
			continue
		}
		for left := stream[:c.n]; c.want > 0 && len(left) > 0; {
			n := min(c.segment, len(left))
			if !other.Begin(n) {
				t.Fatalf("%d bytes in datagrams of %d", c.n, c.segment)
			}
			other.Add(left[:n])
			left = left[n:]
		}
		if one.Len() != c.want || one.check() != nil || !reflect.DeepEqual(&one, &other) {
			t.Errorf("%d bytes in datagrams of %d: %+v, want %+v", c.n, c.segment, one, other)
		}
	}
}
