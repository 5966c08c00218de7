// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runWatched runs a program in Go, passes it the signals that it would get, reports mistakes that the program itself
// cannot report once it has ended, and ends as it did. It returns only if that fails.
func runWatched(path string, args, env []string) error {
	left := leftovers{env: env}
	if err := left.begin(); err != nil {
		return err
	}
	defer left.end()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	runtime.LockOSThread() // the program ends with the thread that has started it
	program := &exec.Cmd{Path: path, Args: args, Env: dedup(append(env, left.variables()...)), Stdin: os.Stdin,
		Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if err := program.Start(); err != nil {
		return err
	}
	go passSignals(signals, program.Process)
	err := program.Wait()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return err
	}
	how := program.ProcessState.Sys().(syscall.WaitStatus)
	status, err := left.report(program.Process.Pid, how.Signaled())
	if err != nil {
		return err
	}
	left.end()
	if how.Signaled() {
		signal.Reset()
		if !slices.Contains(fatal, how.Signal()) {
			syscall.Kill(os.Getpid(), how.Signal())
			time.Sleep(time.Minute) // it may take a moment
		}
		os.Exit(128 + int(how.Signal()))
	}
	if how.ExitStatus() != 0 {
		status = how.ExitStatus()
	}
	os.Exit(status)
	return nil
}

// fatal are signals of which a process in Go says where it was. It would be this one that says so.
var fatal = []syscall.Signal{syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS,
	syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS}

// passSignals sends a program the signals of this one. A terminal's signals go to both already.
func passSignals(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		switch s {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGCONT,
			syscall.SIGTSTP:
		case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
			if !atTerminal() {
				to.Signal(s)
			}
		default:
			to.Signal(s)
		}
	}
}

// atTerminal reports whether this process is in the foreground of its terminal.
func atTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
