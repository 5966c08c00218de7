// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaceVar tells a process that it was started in a namespace of its own.
const namespaceVar = "RAMJET_TEST_NAMESPACE"

// InNamespace reports whether this process has a network namespace of its own, whose loopback
// interface is up and has that MTU. If it has none, it runs the test again in a process that
// has one, with this one's flags, and takes over the result. The test is skipped where no
// namespace can be made.
func InNamespace(t *testing.T, mtu int) bool {
	t.Helper()
	if os.Getenv(namespaceVar) != "" {
		if err := setUpLoopback(mtu); err != nil {
			t.Fatal(err)
		}
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+regexp.QuoteMeta(t.Name())+"$",
		"-test.v="+strconv.FormatBool(testing.Verbose()), "-test.short="+strconv.FormatBool(testing.Short()),
		"-test.timeout="+flag.Lookup("test.timeout").Value.String())
	cmd.Env = append(os.Environ(), namespaceVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		t.Logf("in a network namespace:\n%s", out)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Errorf("in a network namespace: %v", err)
	case err != nil:
		t.Skipf("no network namespace can be made here: %v", err)
	}
	return false
}

// Beside makes a test parallel that InNamespace runs in another process: there it is alone, and not parallel.
func Beside(t *testing.T) {
	t.Helper()
	if os.Getenv(namespaceVar) == "" {
		t.Parallel()
	}
}

// setUpLoopback brings the loopback interface up.
func setUpLoopback(mtu int) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	set := func(request uintptr) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(ifr))); errno != 0 {
			return errno
		}
		return nil
	}
	ifr.SetUint32(uint32(mtu))
	if err := set(unix.SIOCSIFMTU); err != nil {
		return fmt.Errorf("an MTU of %d on lo: %w", mtu, err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := set(unix.SIOCSIFFLAGS); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	return nil
}

// NeedIP skips the test where the tool is not installed that changes interfaces.
func NeedIP(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
}

// SetUp runs that tool with each of the commands, and skips the test if it may not.
func SetUp(t testing.TB, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v: %s", c, err, out)
		}
	}
}

// IP runs that tool, and fails the test if it fails.
func IP(t testing.TB, format string, a ...any) {
	t.Helper()
	command := fmt.Sprintf(format, a...)
	if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", command, err, out)
	}
}
