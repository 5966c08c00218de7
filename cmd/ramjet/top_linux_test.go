// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal, and all that was written to it.
type terminal struct {
	master *os.File
	mu     sync.Mutex
	all    bytes.Buffer
}

// openTerminal returns a terminal of a size, and its other end for a program.
func openTerminal(t *testing.T, columns, lines uint16) (*terminal, *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	term := &terminal{master: master}
	go func() { // until the master is closed
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			term.mu.Lock()
			term.all.Write(b[:n])
			term.mu.Unlock()
		}
	}()
	return term, program
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.all.String()
}

// wait waits until a text was written since the position from, and returns the position behind all.
func (term *terminal) wait(t *testing.T, from int, text string) int {
	t.Helper()
	return term.waitFor(t, from, text, func(all string) bool { return strings.Contains(all, text) })
}

// waitFor is wait for a text that has what holds of it.
func (term *terminal) waitFor(t *testing.T, from int, what string, holds func(text string) bool) int {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		all := term.text()
		if holds(all[from:]) {
			return len(all)
		}
		if time.Now().After(end) {
			t.Fatalf("no %q in %q", what, all[from:])
		}
	}
}

// A process under load is watched in a terminal: its rates come, a key shows a history, and another ends it.
func TestTopTerminal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	load, end := command(ctx, t, "perf", "send", "bw", "--loopback", "--run_infinitely", "--duration", "1s", "-s",
		"4096")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer cancel()
	defer func() {
		load.Process.Signal(os.Interrupt) // so that its second process ends, too
		end(t, load.Wait())
	}()
	pid := fmt.Sprint(load.Process.Pid)
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(ramjetCmd(t, "stat", "qp", pid).stdout, "RTS") {
			break
		}
		if time.Now().After(until) {
			t.Fatal("there is no load")
		}
	}

	term, other := openTerminal(t, 80, 24)
	top := exec.CommandContext(ctx, program, "top", "--interval", "100ms", pid)
	top.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=1", "LC_ALL=C.UTF-8")
	top.Stdin, top.Stdout, top.Stderr = other, other, other
	top.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	term.wait(t, 0, "LQPN")
	const levels = "▁▂▃▄▅▆▇█" // of a graph of moved data
	term.waitFor(t, 0, levels, func(text string) bool { return strings.ContainsAny(text, levels) })
	at := len(term.text())
	if _, err := term.master.Write([]byte("\r")); err != nil {
		t.Fatal(err)
	}
	at = term.wait(t, at, "TX_BYTE")
	if err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: 60, Row: 20}); err != nil {
		t.Fatal(err)
	}
	at = term.wait(t, at, "RETR")
	if _, err := term.master.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := top.Wait(); err != nil {
		t.Error(err)
	}
	term.wait(t, at, "\x1b[?1049l") // the screen from before is back
	if c := regexp.MustCompile(`\x1b\[([0-9]+;)*[349][0-7]m`).FindString(term.text()); c != "" {
		t.Errorf("NO_COLOR is set, and %q is a color", c)
	}
}
