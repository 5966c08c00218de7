// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// helperVar names what this test binary does instead of tests, in a process that tests start.
const helperVar = "RAMJET_SHM_HELPER"

// target is a process that other processes work on.
type target struct {
	*exec.Cmd
	out   *bufio.Reader
	stdin io.Writer
	offer
}

// offer is the message of a target that is ready.
type offer struct {
	Addr  string
	Table verbs.Remote // a region of AllocMR
	Slice verbs.Remote // one of RegMR

	Unreliable verbs.Endpoint // a queue pair of UC, for the endpoint that the target is told
}

// tableBytes is the length of a target's regions.
const tableBytes = 1 << 16

// startTarget starts a process that accepts connections to its regions.
func startTarget(t testing.TB, addr string) *target {
	t.Helper()
	exe := must(os.Executable())
	cmd := exec.Command(exe, "-test.run=^TestTarget$")
	cmd.Env = append(os.Environ(), helperVar+"="+addr)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	in := must(cmd.StdinPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &target{Cmd: cmd, out: bufio.NewReader(out), stdin: in}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := g.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &g.offer)
	}
	if err != nil {
		t.Fatalf("the target says %q: %v", line, err)
	}
	return g
}

// TestTarget is the process of startTarget. It ends when its input does.
func TestTarget(t *testing.T) {
	addr := os.Getenv(helperVar)
	if addr == "" {
		t.Skip("it is for processes that other tests start")
	}
	dev := must(shm.Open(addr, nil))
	pd := must(dev.AllocPD())
	table := must(pd.AllocMR(tableBytes, all))
	slice := must(pd.RegMR(make([]byte, tableBytes), all))
	ln := must(cm.Listen(t.Context(), dev, addr+":0", cm.WithPD(pd)))
	go func() {
		for {
			c, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for { // what is sent comes back
					b, err := c.Recv(context.Background())
					if err != nil || c.Send(context.Background(), b.Bytes()) != nil {
						return
					}
					b.Release()
				}
			}()
		}
	}()
	cq := must(dev.CreateCQ(16, nil))
	uc := must(pd.CreateQP(verbs.QPInit{Type: verbs.UC, SendCQ: cq, RecvCQ: cq}))
	at := must(uc.Endpoint(0))
	json.NewEncoder(os.Stdout).Encode(offer{Addr: ln.Addr().String(), Table: table.Remote(), Slice: slice.Remote(),
		Unreliable: at})
	told := json.NewDecoder(os.Stdin)
	for theirs := (verbs.Endpoint{}); told.Decode(&theirs) == nil; {
		if err := uc.Connect(at, theirs, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// dial connects to a target, with a region of tableBytes.
func (g *target) dial(t testing.TB, dev *verbs.Device) (*cm.Conn, *verbs.MR) {
	t.Helper()
	c, err := cm.Dial(t.Context(), dev, g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, must(c.PD().AllocMR(tableBytes, all))
}

// stop stops the process, and returns when it stands still.
func (g *target) stop(t testing.TB) {
	t.Helper()
	if err := g.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(g.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v, %v", status, err)
	}
}

// counter returns a metric of a device, the flat name of which has labels.
func counter(dev *verbs.Device, name string) uint64 {
	for _, m := range must(dev.Metrics()) {
		if m.FlatName() == name {
			return m.Value
		}
	}
	panic("no metric " + name)
}

// askedOf returns how many of a device's one-sided operations, of which there were that many, went through the target's
// process. Metrics are published some time after the events that they count.
func askedOf(ctx context.Context, t *testing.T, dev *verbs.Device, operations uint64) uint64 {
	t.Helper()
	for {
		asked := counter(dev, "asked_ops")
		if direct := counter(dev, "direct_ops"); asked+direct == operations {
			return asked
		} else if ctx.Err() != nil {
			t.Fatalf("%d operations, and %d through the target's process, of %d", direct, asked, operations)
		}
		time.Sleep(time.Millisecond)
	}
}

// echo sends a message, and has it come back.
func echo(ctx context.Context, c *cm.Conn) error {
	if err := c.Send(ctx, []byte("still there?")); err != nil {
		return err
	}
	b, err := c.Recv(ctx)
	if err == nil && string(b.Bytes()) != "still there?" {
		err = errors.New("it says " + string(b.Bytes()))
	}
	return err
}

// TestStopped works on the memory of a process that is stopped, by every one-sided operation.
func TestStopped(t *testing.T) {
	g := startTarget(t, loopback.Next().String())
	dev := open(t)
	c, mr := g.dial(t, dev)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := echo(ctx, c); err != nil { // until then the target may not have told of its memory
		t.Fatal(err)
	}
	if err := c.Read(ctx, mr.SGE(0, 100), g.Slice); err != nil {
		t.Fatal(err)
	}
	asked := askedOf(ctx, t, dev, 1)
	copies := counter(dev, "crossed_copies") > 0 // the system allows them
	g.stop(t)
	operations := uint64(1 + 9)
	mem := mr.Bytes()
	for i := range mem[:tableBytes/2] {
		mem[i] = byte(i*7 + i>>8)
	}
	if err := c.Write(ctx, mr.SGE(0, tableBytes/2), g.Table); err != nil {
		t.Fatal(err)
	}
	if err := c.Read(ctx, mr.SGE(tableBytes/2, tableBytes/2), g.Table); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mem[:tableBytes/2], mem[tableBytes/2:]) {
		t.Error("what was read is not what was written")
	}
	word := g.Table.At(tableBytes - 8)
	for i := range uint64(3) {
		if _, err := c.Do(ctx, &verbs.SendWR{Op: verbs.OpFetchAdd, Add: 5, SGL: []verbs.SGE{mr.SGE(0, 8)},
			Remote: word}); err != nil {
			t.Fatal(err)
		}
		if got := binary.NativeEndian.Uint64(mem); got != 5*i {
			t.Errorf("the word was %d, not %d", got, 5*i)
		}
	}
	if _, err := c.Do(ctx, &verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 15, Swap: 42, SGL: []verbs.SGE{mr.SGE(0, 8)},
		Remote: word}); err != nil {
		t.Fatal(err)
	}
	if err := c.Read(ctx, mr.SGE(8, 8), word); err != nil {
		t.Fatal(err)
	}
	if old, now := binary.NativeEndian.Uint64(mem), binary.NativeEndian.Uint64(mem[8:]); old != 15 || now != 42 {
		t.Errorf("the word was %d and is %d, not 15 and 42", old, now)
	}
	if _, err := c.Do(ctx, &verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: binary.NativeEndian.AppendUint64(nil, 43),
		Remote: word}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(ctx, &verbs.SendWR{Op: verbs.OpFlush, FlushLevel: verbs.FlushToGlobal, FlushLen: 8,
		Remote: word}); err != nil {
		t.Fatal(err)
	}
	if copies {
		operations += 2
		if err := c.Write(ctx, mr.SGE(0, 10000), g.Slice); err != nil {
			t.Fatal(err)
		}
		if err := c.Read(ctx, mr.SGE(20000, 10000), g.Slice); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mem[:10000], mem[20000:30000]) {
			t.Error("what was read from a slice is not what was written")
		}
	} else {
		t.Log("the system does not let processes copy each other's memory: nothing of a slice was tried")
	}
	if n := askedOf(ctx, t, dev, operations); n != asked {
		t.Errorf("%d operations went through the process that is stopped", n-asked)
	}

	// It goes on, and takes the operations that need it.
	sent := make(chan error, 1)
	go func() { sent <- echo(ctx, c) }()
	if err := g.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills targets at random moments while this process works with them: each time it gets a
// status, and nothing is left of the target.
func TestKilled(t *testing.T) {
	times := 30
	if testrun.Long() {
		times = 1000
	}
	if s := os.Getenv("RAMJET_KILLS"); s != "" { // by hand
		times = must(strconv.Atoi(s))
	}
	dev := open(t)
	killOne(t, dev, 0) // what the Go runtime opens for a process stays
	files, maps := openFiles(), mappings(t)
	for i := range times {
		killOne(t, dev, time.Duration(rand.IntN(3000))*time.Microsecond)
		if t.Failed() {
			t.Fatalf("after %d", i)
		}
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		f, m := openFiles(), mappings(t)
		if f <= files && m <= maps {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d mappings are left of %d and %d", f, m, files, maps)
		}
	}
	if left := must(filepath.Glob("/dev/shm/*ramjet*")); len(left) > 0 {
		t.Errorf("%q is left in /dev/shm", left)
	}
}

// killOne works with a target until it is killed.
func killOne(t *testing.T, dev *verbs.Device, after time.Duration) {
	g := startTarget(t, loopback.Next().String())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cm.Dial(ctx, dev, g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mr := must(c.PD().AllocMR(tableBytes, all))
	defer mr.Close()
	go func() {
		time.Sleep(after)
		g.Process.Kill()
	}()
	ops := []func() error{
		func() error { return c.Write(ctx, mr.SGE(0, 5000), g.Table) },
		func() error { return c.Read(ctx, mr.SGE(0, 5000), g.Slice) },
		func() error { return c.Write(ctx, mr.SGE(0, 40000), g.Slice) },
		func() error { return c.Send(ctx, make([]byte, 100)) },
		func() error {
			b, err := c.Recv(ctx)
			if err == nil {
				b.Release()
			}
			return err
		},
	}
	for i := 0; ; i++ {
		if err := ops[i%len(ops)](); err != nil {
			if ctx.Err() != nil {
				t.Errorf("operation %d waits for ever for a process that is gone: %v; queue pair %v", i, err,
					c.QP().State())
			}
			break
		}
	}
	g.Wait()
}

func openFiles() int { return len(must(os.ReadDir("/proc/self/fd"))) }

// mappings counts the memory of links, regions and directories that this process has mapped.
func mappings(t *testing.T) int {
	return strings.Count(string(must(os.ReadFile("/proc/self/maps"))), "/memfd:ramjet-")
}
