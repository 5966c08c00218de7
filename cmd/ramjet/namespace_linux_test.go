// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// inNamespaces runs the test in a network namespace of its own, with another beside it: see namespaceBeside. It skips
// the test if one of the programs that it needs is missing, and returns false where the test goes on elsewhere.
func inNamespaces(t *testing.T, programs ...string) (ctx context.Context, enter []string, ok bool) {
	t.Helper()
	for _, p := range append([]string{"ip", "nsenter", "sleep"}, programs...) {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
	if !loopback.InNamespace(t, 65536) {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx, namespaceBeside(ctx, t), true
}

// namespaceBeside makes another network namespace, and a cable from 192.0.2.1 here to 192.0.2.2 there. It returns the
// words that begin a command there.
func namespaceBeside(ctx context.Context, t *testing.T) (enter []string) {
	t.Helper()
	there := exec.CommandContext(ctx, "sleep", "600")
	there.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := there.Start(); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	t.Cleanup(func() {
		there.Process.Kill()
		there.Wait()
	})
	enter = []string{"nsenter", "--net=" + fmt.Sprintf("/proc/%d/ns/net", there.Process.Pid), "--"}
	if out, err := exec.Command("ip", "link", "add", "one", "type", "veth", "peer", "name",
		"two").CombinedOutput(); err != nil {
		t.Skipf("no pair of interfaces can be made: %v: %s", err, out)
	}
	for _, c := range []string{"ip addr add 192.0.2.1/24 dev one", "ip link set one up",
		fmt.Sprintf("ip link set two netns %d", there.Process.Pid),
		"THERE ip addr add 192.0.2.2/24 dev two", "THERE ip link set two up"} {
		words := strings.Fields(c)
		if words[0] == "THERE" {
			words = append(append([]string(nil), enter...), words[1:]...)
		}
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	return enter
}
