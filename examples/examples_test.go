// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package examples runs the programs below it.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// patience bounds a test.
const patience = 2 * time.Minute

// program is one that runs.
type program struct {
	*exec.Cmd
	t    *testing.T
	done chan struct{}
	err  error

	mu   sync.Mutex
	said bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// says waits until the program has said something.
func (p *program) says(what string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.output(), what); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.done:
			if !strings.Contains(p.output(), what) {
				p.t.Fatalf("%v has ended, %v, and not said %q:\n%s", p.Args, p.err, what, p.output())
			}
			return
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%v does not say %q:\n%s", p.Args, what, p.output())
		}
	}
}

// ends waits for the program's end, and returns its output.
func (p *program) ends() string {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%v runs on:\n%s", p.Args, p.output())
	}
	if p.err != nil {
		p.t.Fatalf("%v: %v\n%s", p.Args, p.err, p.output())
	}
	return p.output()
}

// stage starts programs on the devices of one kind: their name and the address that peers know.
type stage struct {
	t            *testing.T
	dir          string
	device, host string
}

func (s *stage) start(name, input string, args ...string) *program {
	s.t.Helper()
	return s.startReading(name, strings.NewReader(input), args...)
}

func (s *stage) startReading(name string, input io.Reader, args ...string) *program {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, name), append([]string{"-d", s.device}, args...)...)
	p := &program{Cmd: cmd, t: s.t, done: make(chan struct{})}
	p.Stdout, p.Stderr, p.Stdin = p, p, input
	p.WaitDelay = time.Minute
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.err = p.Wait(); close(p.done) }()
	s.t.Cleanup(func() { p.Process.Kill(); <-p.done })
	return p
}

// pipe returns a program's input, and where the test writes it.
func pipe(t *testing.T) (input, feed *os.File) {
	t.Helper()
	input, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); feed.Close() })
	return input, feed
}

// serve starts a program as a server.
func (s *stage) serve(name string, args ...string) *program {
	s.t.Helper()
	p := s.start(name, "", args...)
	p.says("listening on")
	return p
}

// run runs a program and returns its output.
func (s *stage) run(name string, args ...string) string {
	s.t.Helper()
	return s.start(name, "", args...).ends()
}

// programs is the directory that has the examples.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "ramjet-examples"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(programs)
	os.Exit(status)
}

// compile builds all examples, without what debuggers need.
var compile = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", programs+string(os.PathSeparator),
		"./...").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// build builds the examples once, and returns where they are.
func build(t *testing.T) string {
	t.Helper()
	if err := compile(); err != nil {
		t.Fatal(err)
	}
	return programs
}

// Each example runs as its comment says.
func TestExamples(t *testing.T) {
	dir := build(t)
	want := func(t *testing.T, out, what string) {
		t.Helper()
		if !strings.Contains(out, what) {
			t.Errorf("it does not say %q:\n%s", what, out)
		}
	}
	examples := map[string]func(*testing.T, *stage){
		"counter": func(t *testing.T, s *stage) {
			server := s.serve("counter")
			var both [2]*program
			for i := range both {
				both[i] = s.start("counter", "", "-n", "20", s.host)
			}
			var tickets []string
			for _, p := range both {
				for line := range strings.Lines(p.ends()) {
					if strings.HasPrefix(line, "ticket ") {
						tickets = append(tickets, line)
					}
				}
			}
			slices.Sort(tickets)
			if n := len(slices.Compact(tickets)); n != 40 {
				t.Errorf("%d tickets, want 40", n)
			}
			server.says("40 tickets drawn")
		},
		"kv": func(t *testing.T, s *stage) {
			s.serve("kv")
			want(t, s.run("kv", s.host, "put", "color", "red"), "ok")
			want(t, s.run("kv", s.host, "put", "color", "blue"), "ok")
			want(t, s.run("kv", s.host, "get", "color"), "blue\n")
			none := s.start("kv", "", s.host, "get", "shape")
			if <-none.done; none.err == nil {
				t.Error("a key that there is not is no error")
			}
			want(t, none.output(), `there is no "shape"`)
		},
		"publish": func(t *testing.T, s *stage) {
			a, b := s.start("publish", "", s.host), s.start("publish", "", s.host)
			lines := "one\ntwo\nthree\n"
			want(t, s.start("publish", lines, "-w", "2").ends(), "3 lines to 2 subscribers")
			for _, p := range []*program{a, b} {
				want(t, p.ends(), lines+"0 lines missed")
			}
		},
		"publish to one that goes": func(t *testing.T, s *stage) {
			stays, goes := s.start("publish", "", s.host), s.start("publish", "", s.host)
			input, feed := pipe(t)
			publisher := s.startReading("publish", input, "-w", "2")
			line := func(text string) {
				if _, err := io.WriteString(feed, text); err != nil {
					t.Error(err)
				}
			}
			line("one\n")
			stays.says("one\n")
			goes.says("one\n")
			goes.Process.Kill()
			<-goes.done
			line("two\n")
			publisher.says("subscriber " + s.host)
			line("three\n")
			feed.Close()
			want(t, publisher.ends(), "3 lines to 1 subscribers")
			want(t, stays.ends(), "one\ntwo\nthree\n0 lines missed")
		},
		"queue": func(t *testing.T, s *stage) {
			// A worker that is so slow that the other one does all tasks finds no listener: then both begin again.
			for end := time.Now().Add(patience); ; {
				owner := s.serve("queue")
				a, b := s.start("queue", "", s.host), s.start("queue", "", s.host)
				<-a.done
				<-b.done
				want(t, owner.ends(), "148933 primes below 2000000")
				if (a.err == nil) == (b.err == nil) || time.Now().After(end) {
					want(t, a.ends(), "tasks done")
					want(t, b.ends(), "tasks done")
					return
				}
				t.Logf("one of two workers came too late:\n%s%s", a.output(), b.output())
			}
		},
		"http": func(t *testing.T, s *stage) {
			s.serve("http")
			want(t, s.run("http", s.host), "200 OK: hello, gopher from "+s.host)
		},
		"multicast": func(t *testing.T, s *stage) {
			distribute(t, []*stage{s, s, s})
		},
		"halo": func(t *testing.T, s *stage) {
			out := s.run("halo", "-host", s.host, "-steps", "50")
			for rank := range 4 {
				want(t, out, fmt.Sprintf("rank %d: 50 steps, ", rank))
			}
		},
	}
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, run := range examples {
				t.Run(name, func(t *testing.T) {
					if name == "multicast" && kind != "roce" {
						t.Skip("its devices have no multicast")
					}
					host := loopback.Next().String()
					run(t, &stage{t: t, dir: dir, device: kind + ":" + host, host: host})
				})
			}
		})
	}
}

// Ctrl-C ends a server at once, and is no error.
func TestInterrupt(t *testing.T) {
	dir := build(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"counter": nil, "kv": nil, "publish": nil, "queue": nil, "http": nil,
		"multicast": {file}} {
		t.Run(name, func(t *testing.T) {
			s := &stage{t: t, dir: dir, device: "roce:" + loopback.Next().String()}
			p := s.serve(name, args...)
			if err := p.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			p.ends()
		})
	}
	t.Run("publish with a subscriber", func(t *testing.T) {
		host := loopback.Next().String()
		s := &stage{t: t, dir: dir, device: "roce:" + host}
		input, feed := pipe(t)
		p := s.startReading("publish", input)
		p.says("listening on")
		subscriber := s.start("publish", "", host)
		if _, err := io.WriteString(feed, "one\n"); err != nil {
			t.Fatal(err)
		}
		subscriber.says("one\n")
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		p.ends()
		if <-subscriber.done; subscriber.err == nil {
			t.Error("a publisher that goes is no error")
		}
	})
}

// Where cables corrupt packets, the multicast's receivers miss datagrams, and get all of the file nonetheless.
func TestMulticastLoss(t *testing.T) {
	dir := build(t)
	f, name := softfabric.Start(t, "star:3"), fmt.Sprintf("multicast-%d", os.Getpid())
	softfabric.Serve(t, f, name)
	for i, share := range []float64{0.05, 0.1} {
		if err := f.SetErrorRate(infiniband.End{Node: fmt.Sprintf("host-%d", i+2), Port: 1}, share); err != nil {
			t.Fatal(err)
		}
	}
	var stages []*stage
	for i := range 3 {
		stages = append(stages, &stage{t: t, dir: dir, device: fmt.Sprintf("infiniband:host-%d?fabric=%s", i+1, name),
			host: "198.18.0.1"})
	}
	if again := distribute(t, stages); again < 50 {
		t.Errorf("%d datagrams were sent again, and more than 100 of 2000 are lost", again)
	}
}

// distribute sends a file from the first stage to the others. It returns how many datagrams were sent again.
func distribute(t *testing.T, stages []*stage) (again int) {
	t.Helper()
	dir := t.TempDir()
	file := make([]byte, 2_000_123)
	rand.NewChaCha8([32]byte{}).Read(file)
	source := filepath.Join(dir, "file")
	if err := os.WriteFile(source, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var receivers []*program
	for i, s := range stages[1:] {
		receivers = append(receivers, s.start("multicast", "", stages[0].host, filepath.Join(dir, fmt.Sprint(i))))
	}
	out := stages[0].run("multicast", "-w", fmt.Sprint(len(receivers)), source)
	for i, r := range receivers {
		r.ends()
		if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); err != nil || !bytes.Equal(got, file) {
			t.Errorf("receiver %d has %d other bytes, %v", i, len(got), err)
		}
	}
	_, result, _ := strings.Cut(out, "2000123 bytes to 2 receivers; ")
	if _, err := fmt.Sscan(result, &again); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return again
}
