// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// guestFabric makes the test's program a process that is attached to the fabric of that name instead: at
// host-1, where it receives messages.
const guestFabric = "RAMJET_TEST_FABRIC"

func guest(name string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
	}
	d, err := infiniband.Open(name, "host-1", nil)
	check(err)
	// TestLateIsNotLost sends 60 messages: a process that is slow to take them is not to run out of receives.
	l, err := cm.Listen(context.Background(), d, "198.18.0.1:0", cm.WithDepth(cm.DefaultSendDepth, 128))
	check(err)
	if group := os.Getenv(guestGroup); group != "" {
		ch := cm.NewEventChannel()
		id, err := cm.NewID(ch, d, cm.UDP)
		check(err)
		check(id.Bind(netip.AddrPort{}))
		check(id.JoinMulticast(netip.MustParseAddr(group)))
		e, err := ch.Get(context.Background())
		check(err)
		check(e.Err)
	}
	fmt.Println(l.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends with the test's process
		os.Exit(0)
	}()
	ctx := context.Background()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			for {
				b, err := c.Recv(ctx)
				if err != nil {
					return
				}
				b.Release()
			}
		}()
	}
}

var fabrics atomic.Uint32

// serve lets other processes attach to a fabric, and returns its name.
func serve(t *testing.T, f *infiniband.Fabric) string {
	t.Helper()
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), fabrics.Add(1))
	if err := f.Serve(t.Context(), name); err != nil {
		t.Skip(err)
	}
	return name
}

type process struct {
	*exec.Cmd
	addr string
}

// startGuest starts a process at host-1, with more in its environment.
func startGuest(t *testing.T, name string, env ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	p.Env = append(append(os.Environ(), guestFabric+"="+name), env...)
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		p.Process.Kill()
		p.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the guest has not begun: ", err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

// flood sends messages until that fails, and returns the error.
func flood(ctx context.Context, c *cm.Conn) error {
	msg := make([]byte, 4000)
	for {
		if err := c.Send(ctx, msg); err != nil {
			return err
		}
	}
}

// attached returns how many programs are at an adapter, and how many packets for such as took none were
// dropped.
func attached(f *infiniband.Fabric, adapter string) (n int, dropped uint64) {
	for _, v := range f.View().Nodes {
		if v.Name == adapter {
			return v.Programs, v.Dropped
		}
	}
	return -1, 0
}

// TestStopped stops a process while several peers flood it. Packets that it does not take delay other programs at
// its adapter, but not for ever; and when it goes on, it is reachable again.
func TestStopped(t *testing.T) {
	t.Parallel()
	f := softfabric.Start(t, "pair")
	g := startGuest(t, serve(t, f))
	far, near := device(t, f, "host-2"), device(t, f, "host-1")
	l := pair.Echo(t, near, "198.18.0.1:0")
	beside, err := cm.Dial(within(t), far, l.Addr().String(), cm.WithAckTimeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	const floods = 16
	ended := make(chan error, floods)
	for range floods {
		// Packets without an acknowledgement are sent again for longer than the detection of stalls takes.
		c, err := cm.Dial(within(t), far, g.addr, cm.WithAckTimeout(18), cm.WithDepth(256, 256), cm.WithRecvSize(4096))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 8 {
			go flood(within(t), c)
		}
		go func() { ended <- flood(within(t), c) }()
	}
	if err := talk(within(t), beside, 20); err != nil {
		t.Fatal(err)
	}
	if err := g.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; {
		if err := talk(within(t), beside, 20); err != nil {
			t.Fatal("beside the stopped process: ", err)
		}
		if _, dropped := attached(f, "host-1"); dropped > 0 {
			t.Logf("%d packets dropped after %v", dropped, time.Since(start))
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal("the process that is stopped has its packets kept")
		}
	}
	if err := talk(within(t), beside, 100); err != nil {
		t.Fatal("beside the stopped process: ", err)
	}
	if err := g.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var c *cm.Conn
	for late := time.Now().Add(time.Minute); ; {
		if c, err = cm.Dial(within(t), far, g.addr, cm.WithAckTimeout(patient)); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the process that goes on is not reached: ", err)
		}
	}
	defer c.Close()
	for range 100 {
		if err := c.Send(within(t), []byte("still there?")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilled kills processes at random moments while they are flooded: each time the sender gets a status,
// and nothing is left of the process.
func TestKilled(t *testing.T) {
	const atOnce = 10 // each waits most of its time
	times := 2
	if testrun.Long() {
		times = 10
	}
	f := softfabric.Start(t, "pair")
	name := serve(t, f)
	far := device(t, f, "host-2")
	killFlooded(t, name, far) // after which all is open that is opened once
	files, routines := openFiles(t), runtime.NumGoroutine()
	t.Run("kills", func(t *testing.T) {
		for range atOnce {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range times {
					killFlooded(t, name, far)
				}
			})
		}
	})
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n, _ := attached(f, "host-1")
		fd, g := openFiles(t), runtime.NumGoroutine()
		if n == 0 && fd <= files && g <= routines+8 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("left: %d programs at the adapter; %d descriptors of %d, %d goroutines of %d", n, fd, files, g,
				routines)
		}
	}
	startGuest(t, name) // there is room again
}

// killFlooded kills a process while it is flooded, and waits until the sender has failed and the process has ended.
func killFlooded(t *testing.T, name string, far *verbs.Device) {
	t.Helper()
	g := startGuest(t, name)
	c, err := cm.Dial(within(t), far, g.addr, cm.WithAckTimeout(12))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		g.Process.Kill()
	}()
	ctx := within(t)
	if err := flood(ctx, c); ctx.Err() != nil {
		t.Fatal("who sends waits for ever: ", err)
	}
	c.Close()
	g.Wait()
}

func openFiles(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}
