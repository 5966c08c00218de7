// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// requesterVar has the test binary send from queue pairs instead of testing.
const requesterVar = "RAMJET_SHM_REQUESTER"

// leaving is how many queue pairs a process has that ends.
const leaving = 16

// A process ends that has taken the messages of all queue pairs but one. The completions of messages that it took come
// before the errors of the others, whichever queue pair that is.
func TestCompletionsBeforeLoss(t *testing.T) {
	t.Parallel() // it waits
	for _, without := range []int{0, leaving / 2, leaving - 1} {
		cmd := exec.Command(must(os.Executable()), "-test.run=^TestRequester$")
		cmd.Env = append(os.Environ(), requesterVar+"=1")
		cmd.Stderr = os.Stderr
		in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		said := json.NewDecoder(out)
		n := newNumbered(t, leaving)
		peer := &numbered{}
		if err := said.Decode(&peer.ends); err != nil {
			t.Fatal(err)
		}
		n.connect(peer, pair.Patient)
		for _, qp := range n.qps { // once the requester has these, each queue pair has its link
			n.send(qp)
		}
		for i, qp := range n.qps {
			if i == without {
				continue
			}
			n.receive(qp)
		}
		if err := json.NewEncoder(in).Encode(n.ends); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("the requester is not stopped: %v, %v", status, err)
		}
		for i, s := range n.poll(2*leaving - 1) {
			if s != verbs.StatusSuccess {
				t.Fatalf("completion %d: %v", i, s)
			}
		}
		for _, qp := range n.qps {
			qp.Close()
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		var got []verbs.Status
		if err := said.Decode(&got); err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			if want := i == leaving-1; (s == verbs.StatusRetryExceeded) != want {
				t.Errorf("without a receive at queue pair %d: %v", without, got)
				break
			}
		}
	}
}

// A request to a queue pair that has gone fails after the retries, not before: a program may end with requests left,
// and its other side has all that time to find that it has all messages.
func TestRetriesToOneThatHasGone(t *testing.T) {
	a, b := newNumbered(t, 1), newNumbered(t, 1)
	const timeout, retries = 13, 7 // attempts of 33.6 ms
	opts := &verbs.ConnectOptions{Timeout: timeout}
	for _, side := range [][2]*numbered{{a, b}, {b, a}} {
		if err := side[0].qps[0].Connect(side[0].ends[0], side[1].ends[0], opts); err != nil {
			t.Fatal(err)
		}
	}
	b.receive(b.qps[0])
	a.send(a.qps[0])
	for _, n := range []*numbered{a, b} {
		if s := n.poll(1); s[0] != verbs.StatusSuccess {
			t.Fatal(s)
		}
	}
	start := time.Now()
	a.send(a.qps[0])
	b.qps[0].Close()
	s := a.poll(1)
	took := time.Since(start)
	if least := (4096 << timeout) * (retries + 1) * time.Nanosecond; s[0] != verbs.StatusRetryExceeded || took < least {
		t.Errorf("%v after %v; the retries take %v", s, took, least)
	}
}

// TestRequester is the process that sends. It stops once it has posted, and prints the completions that it polls when
// it goes on.
func TestRequester(t *testing.T) {
	if os.Getenv(requesterVar) == "" {
		t.Skip("it is for a process that another test starts")
	}
	n := newNumbered(t, leaving)
	json.NewEncoder(os.Stdout).Encode(n.ends)
	peer := &numbered{}
	if err := json.NewDecoder(os.Stdin).Decode(&peer.ends); err != nil {
		t.Fatal(err)
	}
	n.connect(peer, verbs.ConnectOptions{}) // some of its requests are to fail, and soon
	for _, qp := range n.qps {
		n.receive(qp)
	}
	n.poll(leaving)
	for _, qp := range n.qps {
		n.send(qp)
	}
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	json.NewEncoder(os.Stdout).Encode(n.poll(leaving))
}
