// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

func TestSendRecv(t *testing.T) {
	client, server := pair(t)
	ctx := within(t)
	for _, n := range []int{0, 1, 100, 1000, cm.DefaultRecvSize} {
		want := bytes.Repeat([]byte{byte(n)}, n)
		ok(t, client.Send(ctx, want))
		b, err := server.Recv(ctx)
		ok(t, err)
		if !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("%d bytes arrived as %d others", n, len(b.Bytes()))
		}
		ok(t, server.SendFrom(ctx, b.SGE(n)))
		b.Release()
		b, err = client.Recv(ctx)
		ok(t, err)
		if !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("%d bytes came back as %d others", n, len(b.Bytes()))
		}
		b.Release()
	}
}

func TestReadWrite(t *testing.T) {
	client, server := pair(t)
	ctx := within(t)
	const all = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic
	theirs, err := server.PD().RegMR(make([]byte, 1<<16), all)
	ok(t, err)
	mine, err := client.PD().RegMR(make([]byte, 1<<16), all)
	ok(t, err)
	defer theirs.Close()
	defer mine.Close()
	copy(mine.Bytes(), "written by the peer")
	ok(t, client.Write(ctx, mine.SGE(0, 19), theirs.Remote().At(100)))
	ok(t, client.Read(ctx, mine.SGE(1000, 19), theirs.Remote().At(100)))
	if got := mine.Bytes()[1000:1019]; string(got) != "written by the peer" {
		t.Fatalf("read %q", got)
	}
	wc, err := client.Do(ctx, &verbs.SendWR{Op: verbs.OpWriteImm, SGL: []verbs.SGE{mine.SGE(0, 5)},
		Remote: theirs.Remote(), Imm: 77})
	ok(t, err)
	if wc.Status != verbs.StatusSuccess {
		t.Fatal(wc.Status)
	}
	b, err := server.Recv(ctx)
	ok(t, err)
	if b.WC.Imm != 77 || len(b.Bytes()) != 0 {
		t.Errorf("%+v, %d bytes", b.WC, len(b.Bytes()))
	}
	b.Release()

	// An access that is not allowed breaks the connection, on both sides.
	err = client.Write(ctx, mine.SGE(0, 5), verbs.Remote{Addr: 0, Key: 1})
	if !errors.Is(err, verbs.StatusRemoteAccessError.Err()) {
		t.Errorf("a forbidden write: %v", err)
	}
	_, err = server.Recv(ctx)
	if err == nil {
		t.Error("received after the end")
	}
	<-client.Done()
	<-server.Done()
	fails(t, client.Send(ctx, nil), verbs.StatusRemoteAccessError.Err(), client.PeerAddr().String())
}

// Several goroutines at once, each with its own request and answer.
func TestConcurrentUse(t *testing.T) {
	client, server := pair(t, cm.WithDepth(8, 8))
	ctx := within(t)
	const workers, each = 8, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { // echoes
			for range each {
				b, err := server.Recv(ctx)
				if err == nil {
					err = server.Send(ctx, b.Bytes())
					b.Release()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range each {
				if err := client.Send(ctx, fmt.Append(nil, "message ", i)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range each {
				b, err := client.Recv(ctx)
				if err != nil {
					t.Error(err)
					continue
				}
				b.Release()
			}
		})
	}
	wg.Wait()
}

// Two wait, two messages come in one packet train: each gets one, with nothing else
// happening on the connection.
func TestEachMessageWakesOne(t *testing.T) {
	const rounds = 200
	client, server := pair(t, cm.WithDepth(2*rounds, 16))
	ctx := within(t)
	wr := verbs.SendWR{Op: verbs.OpSend, Inline: []byte("one of two")}
	for range rounds {
		var wg, started sync.WaitGroup
		started.Add(2)
		for range 2 {
			wg.Go(func() {
				started.Done()
				b, err := server.Recv(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				b.Release()
			})
		}
		started.Wait()
		if _, err := client.QP().PostSendList([]verbs.SendWR{wr, wr}); err != nil {
			t.Fatal(err)
		}
		if wg.Wait(); t.Failed() {
			return
		}
	}
}

// Close while messages arrive and are fetched: Recv ends with io.EOF.
func TestCloseWhileReceiving(t *testing.T) {
	t.Parallel()
	closeWhileReceiving(t, 20)
}

// With one processor, goroutines that wait for messages in a loop are asleep again before the next message comes. Each
// message would be for them, and none for the one that polls.
func TestReceiversTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	closeWhileReceiving(t, 3)
}

func closeWhileReceiving(t *testing.T, times int) {
	t.Helper()
	for range times {
		client, server := pair(t, cm.WithDepth(4, 4))
		ctx := within(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for client.Send(ctx, []byte("message")) == nil {
				}
			})
			wg.Go(func() {
				for {
					b, err := server.Recv(ctx)
					if err == io.EOF {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					b.Release()
				}
			})
		}
		b, err := server.Recv(ctx)
		ok(t, err)
		b.Release()
		ok(t, server.Close())
		wg.Wait()
		ok(t, client.Close())
	}
}

func TestCloseEndsBothSides(t *testing.T) {
	for _, first := range []string{"client", "server"} {
		t.Run(first, func(t *testing.T) {
			client, server := pair(t)
			ctx := within(t)
			if first == "server" {
				client, server = server, client
			}
			ok(t, client.Send(ctx, []byte("last words")))
			ok(t, client.Close())
			<-server.Done()
			b, err := server.Recv(ctx)
			ok(t, err)
			if string(b.Bytes()) != "last words" {
				t.Errorf("%q", b.Bytes())
			}
			b.Release()
			if _, err := server.Recv(ctx); err != io.EOF {
				t.Errorf("after the last message: %v", err)
			}
			fails(t, server.Send(ctx, []byte("too late")), cm.ErrDisconnected, server.PeerAddr().String())
			fails(t, client.Send(ctx, nil), cm.ErrDisconnected)
			ok(t, server.Close())
			ok(t, server.Close())
		})
	}
}

// Close wakes goroutines that wait.
func TestCloseWhileWaiting(t *testing.T) {
	client, _ := pair(t)
	ctx := within(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := client.Recv(ctx); err != io.EOF {
				t.Errorf("Recv of a closed connection: %v", err)
			}
		})
	}
	wg.Go(func() {
		for {
			if err := client.Send(ctx, make([]byte, 100)); err != nil {
				if !errors.Is(err, cm.ErrDisconnected) {
					t.Error(err)
				}
				return
			}
		}
	})
	ok(t, client.Close())
	wg.Wait()
}

func TestRecvCancelled(t *testing.T) {
	client, server := pair(t)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error)
	go func() {
		_, err := client.Recv(ctx)
		done <- err
	}()
	cancel()
	if err := <-done; err != context.Canceled {
		t.Fatal(err)
	}
	ok(t, server.Send(within(t), []byte("later")))
	b, err := client.Recv(within(t))
	ok(t, err)
	b.Release()
}

// Sends whose context ends go on without their caller, and their buffers come back.
func TestSendCancelled(t *testing.T) {
	client, server := pair(t, cm.WithDepth(2, 1))
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	for range 20 {
		if err := client.Send(ctx, make([]byte, 3000)); err != nil && err != context.Canceled {
			t.Fatal(err)
		}
	}
	ok(t, server.Send(within(t), nil))
	ok(t, client.Close())
}

// A peer that dies without a message is noticed because it acknowledges nothing.
func TestPeerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the client waits 17 s for a dead peer to say goodbye
		n := simnet.New(1, nil)
		t.Cleanup(n.Close)
		a, b := n.NewHost().OpenRoCE(), n.NewHost().OpenRoCE()
		t.Cleanup(func() { a.Close(); b.Close() })
		l := listen(t, b)
		in := accept(t, l)
		ctx := within(t)
		client, err := cm.Dial(ctx, a, l.Addr().String(), cm.WithAckTimeout(8), cm.WithRetries(2, 7))
		ok(t, err)
		server := <-in
		ok(t, server.err)
		go driver.DeviceOf(b).Close() // as if it were killed: Device.Close would tell the peer
		<-server.c.Done()
		err = client.Send(ctx, []byte("is anybody there?"))
		fails(t, err, verbs.StatusRetryExceeded.Err(), l.Addr().String())
		<-client.Done()
		_, err = client.Recv(ctx)
		fails(t, err, verbs.StatusRetryExceeded.Err())
		server.c.Close()
		ok(t, client.Close())
	})
}

// Goroutines that wait on a connection learn that its device is closed.
func TestDeviceClosedUnderConnection(t *testing.T) {
	client, _ := pair(t)
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := client.Recv(within(t))
			done <- err
		}()
	}
	ok(t, client.ID().Device().Close())
	<-client.Done()
	for range 2 {
		if err := <-done; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Recv: %v", err)
		}
	}
	fails(t, client.Send(within(t), nil), cm.ErrDisconnected)
	ok(t, client.Close())
}

// A goroutine that waits for a place in the send queue gets it also from a call that fails to post, and
// that therefore has no completion.
func TestPostFails(t *testing.T) {
	c, s := pair(t, cm.WithDepth(1, 64))
	ctx := within(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				c.Do(ctx, &verbs.SendWR{Op: 255})
				runtime.Gosched()
			}
		}
	})
	wg.Go(func() {
		for range 20 {
			if m, err := s.Recv(ctx); err == nil {
				m.Release()
			}
		}
	})
	for range 20 {
		ok(t, c.Send(ctx, []byte("sent")))
	}
	close(done)
	wg.Wait()
}

// An atomic at an address that is no multiple of eight is refused with the address and the rule;
// an atomic that is refused for another reason does not blame the address.
func TestUnalignedAtomic(t *testing.T) {
	for _, c := range []struct {
		op     verbs.SendOp
		off    uint64
		status verbs.Status
		words  []string
	}{
		{verbs.OpFetchAdd, 12, verbs.StatusRemoteInvalidRequestError,
			[]string{"ATOMIC_FETCH_AND_ADD", "multiple of 8"}},
		{verbs.OpCompareSwap, 7, verbs.StatusRemoteInvalidRequestError,
			[]string{"ATOMIC_CMP_AND_SWP", "multiple of 8"}},
		{verbs.OpAtomicWrite, 4, verbs.StatusRemoteInvalidRequestError, []string{"ATOMIC_WRITE", "multiple of 8"}},
		{verbs.OpFetchAdd, 1 << 20, verbs.StatusRemoteAccessError, nil},
	} {
		client, server := pair(t)
		theirs, err := server.PD().AllocMR(64, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
		ok(t, err)
		mine, err := client.PD().AllocMR(8, verbs.LocalWrite)
		ok(t, err)
		remote := theirs.Remote().At(c.off)
		_, err = client.Do(within(t), &verbs.SendWR{Op: c.op, SGL: []verbs.SGE{mine.SGE(0, 8)}, Remote: remote})
		fails(t, err, c.status.Err(), c.words...)
		if says := strings.Contains(err.Error(), fmt.Sprintf("%#x", remote.Addr)); says != (c.words != nil) {
			t.Errorf("%v at %#x: %v", c.op, remote.Addr, err)
		}
	}
}

// A device that is closed tells the peers of its connections, which would notice only when they send
// and their retries run out. Messages that were sent before arrive.
func TestDeviceClosed(t *testing.T) {
	dev := open(t)
	l := listen(t, dev, cm.WithAckTimeout(21)) // the retries take 69 s
	var clients []*cm.Conn
	for range 3 {
		in := accept(t, l)
		c, err := cm.Dial(within(t), open(t), l.Addr().String())
		ok(t, err)
		defer c.Close()
		s := <-in
		ok(t, s.err)
		ok(t, s.c.QP().PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("the last word")}))
		clients = append(clients, c)
	}
	asking := make(chan error, 1)
	go func() { // nobody answers
		_, err := cm.Dial(within(t), open(t), l.Addr().String())
		asking <- err
	}()
	eventually(t, func() bool { return l.QueuedEvents() == 1 }, "the request arrives")
	ok(t, dev.Close())
	for _, c := range clients {
		select {
		case <-c.Done():
		case <-time.After(30 * time.Second):
			t.Fatal("the end of the peer's device is not heard of")
		}
		b, err := c.Recv(within(t))
		ok(t, err)
		if string(b.Bytes()) != "the last word" {
			t.Errorf("%q arrives", b.Bytes())
		}
		b.Release()
	}
	if err := <-asking; !errors.As(err, new(*cm.RejectError)) {
		t.Errorf("asking whose device was closed: %v", err)
	}
}
