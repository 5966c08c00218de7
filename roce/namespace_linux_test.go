// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaceVar tells a process that it was started in a namespace of its own.
const namespaceVar = "RAMJET_TEST_NAMESPACE"

// inNamespace says whether this process has a network namespace of its own. If it has not,
// it runs the test again in one that has, with its flags, and takes over the result.
func inNamespace(t *testing.T) bool {
	if os.Getenv(namespaceVar) != "" {
		if err := setUpLoopback(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$"}
	for _, a := range os.Args[1:] {
		if a == "-test.v=true" || strings.HasPrefix(a, "-test.short") || strings.HasPrefix(a, "-test.timeout") {
			args = append(args, a)
		}
	}
	cmd := exec.Command(exe, args...)
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

// ioctl6 makes an ioctl on an IPv6 socket.
func ioctl6(request uintptr, arg unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// setUpLoopback brings the namespace's loopback interface up and gives it a route for groups.
func setUpLoopback() error {
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := ioctl6(unix.SIOCSIFFLAGS, unsafe.Pointer(ifr)); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	route := struct { // struct in6_rtmsg of linux/ipv6_route.h
		dst, src, gateway [16]byte
		typ               uint32
		dstLen, srcLen    uint16
		metric            uint32
		info              uintptr
		flags             uint32
		ifindex           int32
	}{dst: [16]byte{0xff}, dstLen: 8, metric: 256, flags: unix.RTF_UP, ifindex: int32(lo.Index)}
	if err := ioctl6(unix.SIOCADDRT, unsafe.Pointer(&route)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding a route for groups: %w", err)
	}
	return nil
}

// addLoopbackAddress gives lo one more address.
func addLoopbackAddress(addr netip.Addr) error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	request := struct { // struct in6_ifreq of linux/ipv6.h
		addr      [16]byte
		prefixLen uint32
		ifindex   int32
	}{addr.As16(), 128, int32(lo.Index)}
	if err := ioctl6(unix.SIOCSIFADDR, unsafe.Pointer(&request)); err != nil {
		return fmt.Errorf("adding %v to lo: %w", addr, err)
	}
	return nil
}
