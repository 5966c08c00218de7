// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// inNamespace is [loopback.InNamespace] with one more interface, see namespaceLink.
func inNamespace(t *testing.T) bool {
	if !loopback.InNamespace(t, 65536) {
		return false
	}
	for _, args := range []string{"link add left mtu 9000 type veth peer name right", "link set left up",
		"link set right up"} {
		if exec.Command("ip", strings.Fields(args)...).Run() != nil {
			return true
		}
	}
	namespaceLink = "left"
	return true
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

// reachesItself reports whether a datagram to addr arrives there.
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
		out, err := exec.Command("ip", "addr", "add", addr.String()+"/64", "dev", namespaceLink,
			"nodad").CombinedOutput()
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
