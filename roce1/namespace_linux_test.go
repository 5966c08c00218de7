// SPDX-License-Identifier: Apache-2.0

package roce1_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const timeout = 2 * time.Minute // generous: the machine may be busy

// needNetworks reports whether the test may make interfaces: in a network namespace of its own. False: it
// runs elsewhere, beside other tests, or not at all.
func needNetworks(t *testing.T) bool {
	t.Helper()
	loopback.Beside(t)
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return false
	}
	if err := roce1.Permitted(); err != nil {
		t.Skip(err)
	}
	loopback.SetUp(t, "link add probe0 type veth peer name probe1")
	loopback.IP(t, "link del probe0")
	return true
}

// world is a second network namespace.
type world struct{ fd int } // of the namespace

// newWorld makes a namespace.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{}
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		w.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

// onThread calls f on a thread of its own, and returns what f returns.
func onThread(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)      // also where f ends the test
		runtime.LockOSThread() // never undone: the thread ends with the goroutine
		err = f()
	}()
	<-done
	return err
}

// do calls f in the namespace; where w is nil, in the test's own. Several calls run at once: the kernel takes some
// hundredths of a second to make a device's ring.
func (w *world) do(t testing.TB, f func()) {
	t.Helper()
	if w == nil {
		f()
		return
	}
	err := onThread(func() error {
		err := unix.Setns(w.fd, unix.CLONE_NEWNET)
		if err == nil {
			f()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ip runs ip(8) in the namespace.
func (w *world) ip(t testing.TB, format string, a ...any) {
	t.Helper()
	w.do(t, func() { loopback.IP(t, format, a...) })
}

// open opens the device of an interface of the namespace.
func (w *world) open(t testing.TB, iface string, opt *roce1.Options) *verbs.Device {
	t.Helper()
	var dev *verbs.Device
	var err error
	w.do(t, func() { dev, err = roce1.Open(iface, opt) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// pairs counts pairs of interfaces.
var pairs atomic.Uint32

// veth makes a pair of interfaces, one in each of two namespaces, with an MTU and, if it is not empty,
// IPv4 addresses that begin with net.
func veth(t testing.TB, there *world, mtu int, net string) (left, right string) {
	t.Helper()
	n := pairs.Add(1)
	left, right = fmt.Sprintf("left%d", n), fmt.Sprintf("right%d", n)
	loopback.IP(t, "link add %s mtu %d type veth peer name %s mtu %d", left, mtu, right, mtu)
	if there != nil {
		out, err := setNS(right, there.fd)
		if err != nil {
			t.Fatalf("%s cannot be moved: %v: %s", right, err, out)
		}
	}
	if net != "" {
		loopback.IP(t, "addr add %s.1/24 dev %s", net, left)
		there.ip(t, "addr add %s.2/24 dev %s", net, right)
	}
	loopback.IP(t, "link set %s up", left)
	there.ip(t, "link set %s up", right)
	running(t, left)
	return left, right
}

// setNS moves an interface to a namespace.
func setNS(iface string, fd int) ([]byte, error) {
	cmd := exec.Command("ip", "link", "set", iface, "netns", "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(fd)), "ns")}
	defer cmd.ExtraFiles[0].Close()
	return cmd.CombinedOutput()
}

func dup(fd int) int {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return n
}

// running waits until an interface has its link.
func running(t testing.TB, name string) {
	t.Helper()
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		i, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if i.Flags&net.FlagRunning != 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has no link", name)
		}
	}
}

// bridge has interfaces that reach each other, for as many devices as wanted, in turn here and in
// another namespace.
type bridge struct {
	there *world

	mu    sync.Mutex
	ports int
	spare []place
}

// place is an interface of a namespace; nil: the test's.
type place struct {
	world *world
	name  string
}

func newBridge(t testing.TB) *bridge {
	t.Helper()
	loopback.IP(t, "link add bridge mtu 9000 type bridge mcast_snooping 0")
	loopback.IP(t, "link set bridge up")
	return &bridge{there: newWorld(t)}
}

// open opens the device of an interface of the bridge, which gets it back.
func (b *bridge) open(t testing.TB) *verbs.Device {
	t.Helper()
	at := b.take(t)
	dev := at.world.open(t, at.name, nil)
	t.Cleanup(func() {
		dev.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spare = append([]place{at}, b.spare...)
	})
	return dev
}

// take returns a spare interface, or a new one. Nobody gets a spare one while a command is started: until that runs it
// has all descriptors of the test, also those that are closed meanwhile, and the interface still looks open.
func (b *bridge) take(t testing.TB) place {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.spare); n > 0 {
		at := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return at
	}
	b.ports++
	at, port := place{nil, fmt.Sprintf("dev%d", b.ports)}, fmt.Sprintf("br%d", b.ports)
	loopback.IP(t, "link add %s mtu 9000 type veth peer name %s mtu 9000", at.name, port)
	if b.ports%2 == 0 {
		at.world = b.there
		if out, err := setNS(at.name, b.there.fd); err != nil {
			t.Fatalf("%s cannot be moved: %v: %s", at.name, err, out)
		}
	}
	loopback.IP(t, "link set %s master bridge up", port)
	at.world.ip(t, "link set %s up", at.name)
	running(t, port)
	return at
}
