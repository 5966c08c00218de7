// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pinLimitEnv makes the test binary become another program that may pin 64 KiB.
const pinLimitEnv = "RAMJET_TEST_PIN_LIMIT"

func init() {
	program := os.Getenv(pinLimitEnv)
	if program == "" {
		return
	}
	os.Unsetenv(pinLimitEnv)
	runtime.LockOSThread()
	unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0) // fails without the capability
	err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10})
	if err == nil {
		err = syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
	}
	panic(err)
}

// TestBenchRegistrationLimit measures sizes that a process without privileges may pin, and reports larger ones.
func TestBenchRegistrationLimit(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "bench", "registration", "-s", "4K,1M", "--runs", "1", "-D", "1ms")
	cmd.Env = append(os.Environ(), pinLimitEnv+"="+program)
	b, err := cmd.CombinedOutput()
	out := string(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out, "not measured\n") + strings.Count(out, "not measured "); n != 4 {
		t.Errorf("%d are not measured:\n%s", n, out)
	}
	for _, want := range []string{"1 MiB, pinned: ", "RLIMIT_MEMLOCK is 65536 bytes", "ulimit -l", "LimitMEMLOCK="} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
}
