// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
)

// TestMappingsOfLink counts what a connection maps: each side has the link's segment once.
func TestMappingsOfLink(t *testing.T) {
	count := func() int {
		all, err := os.ReadFile("/proc/self/maps")
		noError(t, err)
		return bytes.Count(all, []byte("ramjet-link"))
	}
	before := count()
	a, b := newEnds(t)
	if n := count() - before; n > 2 {
		t.Errorf("a connection has %d mappings, 2 at most were wanted", n)
	}
	a.link.Close(true)
	b.link.Close(true)
	if n := count() - before; n > 0 {
		t.Errorf("%d mappings stay", n)
	}
}

// twoNetworks returns networks of two devices at one address.
func twoNetworks(t *testing.T) (nets [2]*network) {
	t.Helper()
	opt := &Options{Dir: t.TempDir()}
	for i := range nets {
		n, err := newNetwork(netip.MustParseAddr("127.0.0.1"), opt)
		noError(t, err)
		t.Cleanup(func() { n.Close() })
		nets[i] = n.(*network)
	}
	return nets
}

// listenAndDial returns a listener of a network, and the link that dials it.
func listenAndDial(t *testing.T) (a *network, acc streamdev.Acceptor, dial func() (streamdev.Link, error)) {
	t.Helper()
	nets := twoNetworks(t)
	acc, err := nets[0].Listen(netip.MustParseAddrPort("127.0.0.1:0"), 8)
	noError(t, err)
	return nets[0], acc, func() (streamdev.Link, error) {
		l, err := nets[1].Dial(netip.MustParseAddrPort("127.0.0.1:0"), acc.Addr(), 0)
		if err == nil {
			t.Cleanup(func() { l.Close(true) })
			l.Own(&end{link: l.(*link), net: nets[1]})
		}
		return l, err
	}
}

// refused has a peer come for which a network has no room: both sides get the name of the limit.
func refused(t *testing.T, a *network, acc streamdev.Acceptor, l streamdev.Link, limit string) {
	t.Helper()
	told := false
	d := &end{link: l.(*link), net: l.(*link).net}
	for end := time.Now().Add(30 * time.Second); !told ||
		l.Connected() == softdev.ErrAgain; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the listener was told: %v; the peer: %v", told, l.Connected())
		}
		a.asked.Store(true)
		a.Ready(func(any, bool, bool) {})
		d.look()
		if _, err := acc.Accept(); err != nil && strings.Contains(err.Error(), limit) {
			told = true
		}
	}
	if err := l.Connected(); err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("the peer is told: %v", err)
	}
}

// TestNoMappings uses up the process's mappings. An operation that needs one is refused by the name of the limit, on
// this side and on the other, and succeeds when there is room again.
func TestNoMappings(t *testing.T) {
	const limit = "vm.max_map_count"
	a, acc, dial := listenAndDial(t)
	taken := 0
	for mappings.Take() == nil {
		if taken++; taken > 1<<24 {
			t.Skip("the system has no limit to speak of")
		}
	}
	defer func() {
		for range taken {
			mappings.Give()
		}
	}()
	if _, err := dial(); err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("dialing: %v", err)
	}
	if _, _, _, err := a.Allocate(4096, true); err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("allocating: %v", err)
	}
	mappings.Give() // room for the side that dials
	taken--
	l, err := dial()
	noError(t, err)
	refused(t, a, acc, l, limit)
}

// TestNoDescriptors has few descriptors left. The peer is let in to be told why he is turned away.
func TestNoDescriptors(t *testing.T) {
	const limit = "RLIMIT_NOFILE"
	a, acc, dial := listenAndDial(t)
	l, err := dial()
	noError(t, err)
	var old unix.Rlimit
	noError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	var next int    // descriptor
	for range 128 { // so that an eighth of the limit is enough to let the peer in
		next, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		noError(t, err)
		defer unix.Close(next)
	}
	few := old
	few.Cur = uint64(next) * 9 / 8
	noError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	refused(t, a, acc, l, limit)
	if l, err := dial(); err == nil {
		err = l.Connected()
		if err == nil || !strings.Contains(err.Error(), limit) {
			t.Errorf("dialing: %v", err)
		}
	}
}
