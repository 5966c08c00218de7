// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/roce"
)

// serverAddress makes the test's program a server at that address instead.
const serverAddress = "RAMJET_CM_TEST_SERVER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(serverAddress); addr != "" {
		serve(addr)
		return
	}
	testrun.Waits()
	os.Exit(m.Run())
}

// serve accepts connections until its standard input ends. Each line of it is answered with
// the resident memory of the process in KiB.
func serve(addr string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
	}
	dev, err := roce.Open(addr, nil)
	check(err)
	defer dev.Close()
	l, err := cm.Listen(context.Background(), dev, ":0")
	check(err)
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() { <-c.Done(); c.Close() }()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(resident())
	}
}

// resident returns the resident memory of the process in KiB, 0: unknown.
func resident() (kib int) {
	b, _ := os.ReadFile("/proc/self/status")
	if _, after, found := strings.Cut(string(b), "VmRSS:"); found {
		fmt.Sscan(after, &kib)
	}
	return kib
}

// server is a server in a process of its own.
type server struct {
	at  string
	in  io.WriteCloser
	out *bufio.Reader
}

func startServer(t testing.TB) *server {
	t.Helper()
	dev := open(t) // whose address it takes over
	addr := dev.Name()[len("roce:"):]
	dev.Close()
	exe, err := os.Executable()
	ok(t, err)
	cmd := exec.Command(filepath.Clean(exe))
	cmd.Env = append(os.Environ(), serverAddress+"="+addr)
	cmd.Stderr = os.Stderr
	s := &server{}
	s.in, err = cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	s.out = bufio.NewReader(out)
	ok(t, cmd.Start())
	t.Cleanup(func() {
		s.in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error("server:", err)
		}
	})
	s.at = s.line(t)
	return s
}

func (s *server) line(t testing.TB) string {
	t.Helper()
	l, err := s.out.ReadString('\n')
	ok(t, err)
	return strings.TrimSpace(l)
}

// resident returns the server's resident memory in KiB.
func (s *server) resident(t testing.TB) (kib int) {
	fmt.Fprintln(s.in)
	fmt.Sscan(s.line(t), &kib)
	return kib
}

func TestTwoProcesses(t *testing.T) {
	s := startServer(t)
	dev := open(t)
	for range 10 {
		c, err := cm.Dial(within(t), dev, s.at)
		ok(t, err)
		ok(t, c.Send(within(t), []byte("hello")))
		ok(t, c.Close())
	}
}

// BenchmarkProcesses sets connections to another process up and tears them down.
func BenchmarkProcesses(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprint("callers=", workers), func(b *testing.B) {
			s := startServer(b)
			dev := open(b)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range workers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						c, err := cm.Dial(b.Context(), dev, s.at)
						if err == nil {
							err = c.Close()
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		})
	}
}

// BenchmarkHeld is the resident memory of two processes that hold 10,000 connections.
func BenchmarkHeld(b *testing.B) {
	const n = 10000
	for b.Loop() {
		s := startServer(b)
		dev := open(b)
		conns := make([]*cm.Conn, n)
		for i := range conns {
			c, err := cm.Dial(b.Context(), dev, s.at)
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = c
		}
		b.ReportMetric(float64(s.resident(b)+resident())/1024, "MiB")
		b.ReportMetric(float64(s.resident(b)+resident())*1024/n, "B/connection")
		closeMany(b, conns)
	}
}
