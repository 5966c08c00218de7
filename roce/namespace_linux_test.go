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
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaceVar tells a process that it was started in a namespace of its own.
const namespaceVar = "RAMJET_TEST_NAMESPACE"

// inNamespace says whether this process has a network namespace of its own. If it has not,
// it runs the test again in one that has, with its flags, and takes over the result.
func inNamespace(t *testing.T) bool {
	if os.Getenv(namespaceVar) != "" {
		if err := setUpNamespace(); err != nil {
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

// namespaceLink is the interface of the namespace that addresses are added to: one that
// carries multicast, if such a one can be made, and otherwise the loopback interface.
var namespaceLink = "lo"

// setUpNamespace brings the namespace's interfaces up.
func setUpNamespace() error {
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := ioctl6(unix.SIOCSIFFLAGS, unsafe.Pointer(ifr)); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	for _, args := range []string{"link add left mtu 9000 type veth peer name right", "link set left up", "link set right up"} {
		if exec.Command("ip", strings.Fields(args)...).Run() != nil {
			return nil
		}
	}
	namespaceLink = "left"
	return nil
}

// addAddress gives the namespace one more address, and waits until it receives: Linux adds
// the route to an IPv6 address a little later than the address.
func addAddress(addr netip.Addr) error {
	if err := assignAddress(addr); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if reachesItself(addr) {
			return nil
		}
	}
	return fmt.Errorf("%v: what is sent to it does not arrive", addr)
}

// reachesItself says whether a datagram to addr arrives there.
func reachesItself(addr netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.WriteTo([]byte{1}, c.LocalAddr()); err != nil {
		return false
	}
	n, _, err := c.ReadFrom(make([]byte, 1))
	return n == 1 && err == nil
}

func assignAddress(addr netip.Addr) error {
	if namespaceLink != "lo" { // without asking the network whether somebody has it
		out, err := exec.Command("ip", "addr", "add", addr.String()+"/64", "dev", namespaceLink, "nodad").CombinedOutput()
		if err != nil {
			return fmt.Errorf("adding %v to %s: %w: %s", addr, namespaceLink, err, out)
		}
		return nil
	}
	link, err := net.InterfaceByName(namespaceLink)
	if err != nil {
		return err
	}
	request := struct { // struct in6_ifreq of linux/ipv6.h
		addr      [16]byte
		prefixLen uint32
		ifindex   int32
	}{addr.As16(), 64, int32(link.Index)}
	if err := ioctl6(unix.SIOCSIFADDR, unsafe.Pointer(&request)); err != nil {
		return fmt.Errorf("adding %v to %s: %w", addr, link.Name, err)
	}
	return nil
}
