// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bound has the kernel end the second process with this one, also while it is stopped.
func bound(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stop stops the process with a signal, and returns when all its threads stand still. goOn lets it go on.
func (p *peerProcess) stop(ctx context.Context) (goOn func(), err error) {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, errPeerGone
	}
	goOn = func() { p.cmd.Process.Signal(syscall.SIGCONT) }
	for ; !p.standsStill(); time.Sleep(100 * time.Microsecond) {
		if ctx.Err() != nil {
			goOn()
			return nil, context.Cause(ctx)
		}
	}
	return goOn, nil
}

// standsStill reports whether all threads of the process are stopped (state T), or gone.
func (p *peerProcess) standsStill() bool {
	threads := p.threads("stat")
	for _, stat := range threads {
		if state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " "); !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return len(threads) > 0
}

// threads returns a file of each thread of the process.
func (p *peerProcess) threads(file string) (all [][]byte) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", p.cmd.Process.Pid, file))
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			all = append(all, b)
		}
	}
	return all
}

// processorTime returns the processor time of the process's threads: the first number of their schedstat, in
// nanoseconds. A nil process, and a kernel without such figures, has none that is known.
func (p *peerProcess) processorTime() (t processorTime) {
	if p == nil {
		return t
	}
	for _, b := range p.threads("schedstat") {
		f := strings.Fields(string(b))
		if len(f) == 0 {
			return processorTime{}
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return processorTime{}
		}
		t.time += time.Duration(n)
	}
	t.known = t.time > 0
	return t
}
