// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// mistakes is a program that makes the mistakes in its argument.
const mistakes = "testdata/mistakes.c"

// buildMistakes builds testdata/mistakes.c.
func buildMistakes(t *testing.T) (program string) {
	t.Helper()
	dir, program := need(t), filepath.Join(t.TempDir(), "mistakes")
	text, err := exec.Command("gcc", "-O1", "-g", "-Wall", "-Werror", "-pthread", "-o", program, mistakes,
		filepath.Join(dir, "librdmacm.so.1"), filepath.Join(dir, "libibverbs.so.1")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return program
}

// checked builds testdata/mistakes.c, and returns a function that runs one of its programs with the checker. It returns
// the rules that were found, the output, and the exit status, -1 after a signal.
func checked(t *testing.T) func(t *testing.T, name string) (rules []string, out string, status int) {
	t.Helper()
	dir := need(t)
	run, program := ramjet(t), buildMistakes(t)
	return func(t *testing.T, name string) (rules []string, out string, status int) {
		b, err := command(t.Context(), dir, serverAddr, run, "run", "--libs", dir, "--check", "--", program,
			name).CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ramjet check: ([a-z-]+):`).FindAllStringSubmatch(string(b), -1) {
			rules = append(rules, m[1])
		}
		slices.Sort(rules)
		if failed != nil {
			status = failed.ExitCode()
		}
		return slices.Compact(rules), string(b), status
	}
}

// Mistakes of C programs are found, and programs that look like them are not.
func TestCheck(t *testing.T) {
	run := checked(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct {
		name, rules string
		status      int
	}{
		{"right", "", 0},
		{"send-modified", "send-modified", 66},
		{"destroyed-qp", "use-after-destroy", 66},
		{"destroyed-post", "use-after-destroy", 66},
		{"destroyed-cq", "use-after-destroy", 66},
		{"dereg-twice", "double-destroy", 66},
		{"id-twice", "double-destroy", 66},
		{"ids", "", 0},
		{"many-objects", "", 0},
		{"leak", "leak", 66},
		{"forks", "", 0},
		{"child-open", "", 0},
		{"fails", "leak", 3},
		{"acknowledged", "", 0},
		{"unacknowledged", "event-unacknowledged", 66},
		{"acknowledged-late", "", 0},
		{"event-left", "events-left leak", 66},
		{"completion-left", "events-left leak", 66},
		{"completion-discarded", "", 0},
		{"polled", "", 0},
		{"armed-later", "", 0},
		{"unarmed", "channel-unarmed", -1},
		{"unarmed-thread", "channel-unarmed", 0},
		{"idle-thread", "", 0},
		{"request-after-arming", "", 0},
		{"shared-cq", "", 0},
		{"single-cq", "concurrent-use", 66},
		{"single-cq-in-turn", "", 0},
		{"error-unread", "completion-error-unread", 66},
		{"error-read", "", 0},
		{"fatal-left", "events-left leak", 66},
		{"shared-builder", "", 0},
		{"single-builder", "concurrent-use", 0},
		{"destroyed-builder", "use-after-destroy", 0},
		{"ah-destroyed", "use-after-destroy", 66},
		{"ah-used", "", 0},
		{"qp-on-dead-cq", "use-after-destroy", 66},
		{"connected", "", 0},
		{"connection-event", "event-unacknowledged", 66},
		{"acknowledged-twice", "double-destroy", 66},
		{"connection-qp", "leak", 66},
		{"connection-qp-twice", "double-destroy", 66},
		{"disconnect-left", "events-left leak", 66},
		{"disconnect-discarded", "", 0},
		{"freed", "memory-freed", 66},
		{"freed-posted", "memory-freed", 66},
		{"freed-local", "", 0},
		{"freed-unreachable", "", 0},
		{"freed-after", "", 0},
		{"freed-elsewhere", "", 0},
		{"reallocated", "memory-freed", 66},
		{"unmapped", "memory-freed", 66},
		{"dropped", "memory-freed", 66},
		{"advised", "", 0},
		{"stack-returned", "memory-freed", 66},
		{"stack-used", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, out, status := run(t, c.name)
			if got := strings.Join(rules, " "); got != c.rules || status != c.status {
				t.Errorf("%q and status %d, and not %q and %d:\n%s", got, status, c.rules, c.status, out)
			}
		})
	}
	// The one thread that destroys it may be in time for none, one or more of the other's polls.
	t.Run("destroyed-under-poller", func(t *testing.T) {
		rules, out, status := run(t, "destroyed-under-poller")
		if len(rules) == 0 || status != 66 ||
			!slices.Contains(rules, "concurrent-use") && !slices.Contains(rules, "use-after-destroy") {
			t.Errorf("%q and status %d:\n%s", rules, status, out)
		}
	})
}

// A thread of Go frees memory before it can run Go code. If the checker then asked Go about a region on that memory,
// the thread would wait for itself.
func TestCheckFreedByGo(t *testing.T) {
	dir, run, program := need(t), ramjet(t), buildMistakes(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("RAMJET_CHECK", "off=leak")
	var devices []string
	for range 10 {
		devices = append(devices, "shm:"+loopback.Next().String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := command(ctx, dir, strings.Join(devices, ","), run, "run", "--libs", dir, "--", program,
		"freed-by-go").CombinedOutput()
	if err != nil || strings.Contains(string(out), "ramjet check:") {
		t.Errorf("%v\n%s", err, out)
	}
}

// In containers a variable is enough: the library that shows /sys has the program start again with the checker's.
func TestCheckRestarts(t *testing.T) {
	dir, program := need(t), buildMistakes(t)
	for value, want := range map[string]int{"1": 66, "0": 0} {
		cmd := command(t.Context(), dir, serverAddr, program, "freed")
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+filepath.Join(dir, "libramjet-sysfs.so"), "RAMJET_CHECK="+value)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want ||
			(want != 0) != strings.Contains(string(out), "memory-freed: ") {
			t.Errorf("RAMJET_CHECK=%s: status %d, not %d:\n%s", value, got, want, out)
		}
	}
}

// Reports show the functions and lines of the program, and none of the libraries'.
func TestCheckStacks(t *testing.T) {
	run := checked(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, out, _ := run(t, "send-modified")
	for _, want := range []string{
		`It was posted, [\d:.]+:\n    post\(\)\n        testdata/kit.h:\d+\n    send_modified\(\)\n        testdata/mistakes.c:\d+\n    main\(\)\n`,
		`Its completion was polled, [\d:.]+:\n    next\(\)\n        testdata/kit.h:\d+\n    send_modified\(\)\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, "libibverbs") || strings.Contains(out, "verbs.h") {
		t.Errorf("the libraries' functions are there:\n%s", out)
	}
}
