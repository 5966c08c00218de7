// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// broken is set for tests that fail on purpose, which others run in a process of their own.
const broken = "RDMATEST_BROKEN"

// runBroken runs a test that fails, and returns its output.
func runBroken(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"-test.run=^" + name + "$"}, args...)...)
	cmd.Env = append(os.Environ(), broken+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%v, want a failure: %v, %s", args, err, out)
	}
	return string(out)
}

func onlyBroken(t *testing.T) {
	if os.Getenv(broken) == "" {
		t.Skip("it fails on purpose: others run it")
	}
}

// TestBrokenDeath fails where a process dies.
func TestBrokenDeath(t *testing.T) {
	onlyBroken(t)
	rdmatest.Run(t, 100, func(w *rdmatest.World) {
		a, b := w.Host("server"), w.Host("client")
		server, client := a.RoCE(), b.RoCE()
		w.Draw(rdmatest.Packets|rdmatest.Passing|rdmatest.Fatal, a)
		w.Draw(rdmatest.Packets, a, b)
		if err := converse(w, a, b, server, client, 300); err != nil {
			w.Fatal(err)
		}
	})
}

// TestReport: a failure is shrunk to the fault that it needs, and repeats byte for byte.
func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := runBroken(t, "TestBrokenDeath", "-rdmatest.keep", dir)
	m := regexp.MustCompile(`again: go test -run '\^TestBrokenDeath\$' -rdmatest.seed (\d+) -rdmatest.faults (\d+)\n`).FindStringSubmatch(out)
	if m == nil || !strings.Contains(out, "The failure needs 1 of ") ||
		!strings.Contains(out, "fault "+m[2]+": host server: ") {
		t.Fatalf("the report is\n%s", out)
	}
	name := filepath.Join(dir, "TestBrokenDeath-seed-"+m[1])
	want, err := os.ReadFile(name + ".txt")
	if err != nil || len(want) == 0 {
		t.Fatalf("the trace has %d bytes, %v", len(want), err)
	}
	if packets, err := os.ReadFile(name + ".pcapng"); err != nil || len(packets) < 1000 {
		t.Fatalf("the pcapng has %d bytes, %v", len(packets), err)
	}
	if rdmatest.RaceDetector {
		t.Log("with the race detector Go's scheduler draws who goes first: whether the seed repeats is tested without")
		return
	}
	// On a busy machine Go may take the processor from a goroutine in its midst, and others go first.
	for try := range 20 {
		runBroken(t, "TestBrokenDeath", "-rdmatest.keep", dir, "-rdmatest.seed", m[1], "-rdmatest.faults", m[2])
		got, err := os.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) == string(want) {
			return
		}
		t.Logf("try %d went otherwise", try)
	}
	t.Error("the seed does not repeat")
}

// TestProcesses: processes play all seeds, and report the seeds that fail.
func TestProcesses(t *testing.T) {
	t.Parallel()
	out := runBroken(t, "TestBrokenDeath", "-rdmatest.keep", t.TempDir(), "-rdmatest.seeds", "20", "-rdmatest.j", "2")
	if m := regexp.MustCompile(`TestBrokenDeath: 20 seeds in \w+, (\d+) failed \[`).FindStringSubmatch(out); m == nil ||
		m[1] == "0" {
		t.Errorf("it prints\n%s", out)
	}
}

// TestBrokenMutex holds a mutex while it sleeps.
func TestBrokenMutex(t *testing.T) {
	onlyBroken(t)
	rdmatest.LookOften()
	rdmatest.Run(t, 1, func(w *rdmatest.World) {
		var mu sync.Mutex
		w.Host("a").Go(func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			w.Sleep(time.Second)
			return nil
		})
		w.Sleep(time.Millisecond)
		mu.Lock()
	})
}

// TestStandsStill: a goroutine that waits for a mutex over a wait is named.
func TestStandsStill(t *testing.T) {
	t.Parallel()
	out := runBroken(t, "TestBrokenMutex")
	for _, want := range []string{
		`seed 0: time stands still`,
		`goroutine \d+ \[sync.Mutex.Lock\] at .*failing_test.go:\d+ \(rdmatest_test.TestBrokenMutex`,
		`One of these may hold it:\n.*\[sleep\] at .*failing_test.go:\d+ \(rdmatest_test.TestBrokenMutex`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("it prints\n%s\nwant %s", out, want)
		}
	}
}

// TestBrokenWait waits for ever.
func TestBrokenWait(t *testing.T) {
	onlyBroken(t)
	rdmatest.Run(t, 1, func(w *rdmatest.World) {
		<-make(chan int)
	})
}

// TestForEver: a goroutine that waits for ever is named.
func TestForEver(t *testing.T) {
	t.Parallel()
	out := runBroken(t, "TestBrokenWait")
	if want := `the test has not ended after 20m0s of virtual time.*\n.*\[chan receive\] at .*failing_test.go`; !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("it prints\n%s\nwant %s", out, want)
	}
}

// TestBrokenSeeds plays nothing.
func TestBrokenSeeds(t *testing.T) {
	onlyBroken(t)
	rdmatest.Run(t, 0, func(*rdmatest.World) {})
}

// A test that plays no seed has not passed.
func TestNoSeeds(t *testing.T) {
	t.Parallel()
	if out := runBroken(t, "TestBrokenSeeds"); !strings.Contains(out, "Run plays 0 seeds: nothing would be tested") {
		t.Errorf("it prints\n%s", out)
	}
}
