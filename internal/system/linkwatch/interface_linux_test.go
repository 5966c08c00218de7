// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// neighborMessage makes a message about a host on a link.
func neighborMessage(index int32, state uint16, addr string, mac MAC) *syscall.NetlinkMessage {
	a := netip.MustParseAddr(addr).AsSlice()
	b := []byte{unix.AF_INET, 0, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint16(b, state)
	b = append(b, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(a)))
	b = binary.NativeEndian.AppendUint16(b, unix.NDA_DST)
	b = append(b, a...)
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(mac)))
	b = binary.NativeEndian.AppendUint16(b, unix.NDA_LLADDR)
	return message(unix.RTM_NEWNEIGH, append(b, mac[:]...)...)
}

func TestLinkBook(t *testing.T) {
	const running = unix.IFF_UP | unix.IFF_RUNNING
	b := linkState{link: Link{Index: 7}, neighbors: &neighbors{socks: [2]int{-1, -1}}}
	for _, c := range []struct {
		what string
		m    *syscall.NetlinkMessage
		up   bool
		want string // addresses
	}{
		{"a link", linkMessage(unix.RTM_NEWLINK, 0, 7, running), true, "[]"},
		{"another link", linkMessage(unix.RTM_NEWLINK, 0, 8, unix.IFF_UP), true, "[]"},
		{"an address", addrMessage(unix.RTM_NEWADDR, 0, 7, "fd78::1/64"), true, "[fd78::1]"},
		{"a tentative one", addrMessage(unix.RTM_NEWADDR, unix.IFA_F_TENTATIVE, 7, "fd78::2/64"), true, "[fd78::1]"},
		{"another link's", addrMessage(unix.RTM_NEWADDR, 0, 8, "fd78::3/64"), true, "[fd78::1]"},
		{"a second one", addrMessage(unix.RTM_NEWADDR, 0, 7, "192.0.2.1/24"), true, "[fd78::1 192.0.2.1]"},
		{"the second again", addrMessage(unix.RTM_NEWADDR, 0, 7, "192.0.2.1/24"), true, "[fd78::1 192.0.2.1]"},
		{"no cable", linkMessage(unix.RTM_NEWLINK, 0, 7, unix.IFF_UP), false, "[fd78::1 192.0.2.1]"},
		{"the first gone", addrMessage(unix.RTM_DELADDR, 0, 7, "fd78::1/64"), false, "[192.0.2.1]"},
		{"the link gone", linkMessage(unix.RTM_DELLINK, 0, 7, 0), false, "[]"},
	} {
		b.handle(c.m)
		if got := b.link.Addrs; b.link.Up != c.up || fmt.Sprint(got) != c.want {
			t.Fatalf("%s: up %v, %v; want %v, %s", c.what, b.link.Up, got, c.up, c.want)
		}
	}
}

// Of hosts on the link the kernel knows best. A host that it gives up stays as it was.
func TestNeighbors(t *testing.T) {
	n := &neighbors{socks: [2]int{-1, -1}}
	b := linkState{link: Link{Index: 7}, neighbors: n}
	host := netip.MustParseAddr("192.0.2.9")
	first, second, third := MAC{2, 1}, MAC{2, 2}, MAC{2, 3}
	for _, c := range []struct {
		what string
		do   func()
		want MAC
		news bool
	}{
		{"nothing", func() {}, MAC{}, false},
		{"the kernel asks", func() { b.handle(neighborMessage(7, unix.NUD_INCOMPLETE, "192.0.2.9", third)) }, MAC{},
			false},
		{"another link's host", func() { b.handle(neighborMessage(8, unix.NUD_REACHABLE, "192.0.2.9", third)) }, MAC{},
			false},
		{"a frame's source", func() { n.Hint(host, first) }, first, true},
		{"the same", func() { n.Hint(host, first) }, first, false},
		{"the kernel's answer", func() { b.handle(neighborMessage(7, unix.NUD_REACHABLE, "192.0.2.9", second)) },
			second, true},
		{"another frame's source", func() { n.Hint(host, third) }, second, false},
		{"it is old", func() { b.handle(neighborMessage(7, unix.NUD_STALE, "192.0.2.9", second)) }, second, false},
		{"it does not answer", func() { b.handle(neighborMessage(7, unix.NUD_FAILED, "192.0.2.9", third)) }, second,
			false},
		{"it has moved", func() { b.handle(neighborMessage(7, unix.NUD_STALE, "192.0.2.9", third)) }, third, true},
	} {
		before := n.Generation()
		c.do()
		if got, known := n.Neighbor(host); got != c.want || known != (c.want != MAC{}) ||
			(n.Generation() != before) != c.news {
			t.Fatalf("%s: %x, %v, generation %d after %d; want %x", c.what, got, known, n.Generation(), before, c.want)
		}
	}
	for i := range 2 * maxNeighbors {
		n.Neighbor(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	if len(n.known) > maxNeighbors {
		t.Errorf("%d hosts are remembered", len(n.known))
	}
}

// The kernel is made to find a host; a host that does not exist is given up, and waits end when the
// interface is closed.
func TestAwaitNeighbor(t *testing.T) {
	loopback.NeedIP(t)
	if os.Geteuid() != 0 {
		t.Skip("only root gives a network namespace a name: ip mounts it")
	}
	if !loopback.InNamespace(t, 65536) {
		return
	}
	there := fmt.Sprintf("ramjet-test-%d", os.Getpid()) // the names are the whole system's
	loopback.IP(t, "netns add %s", there)
	defer loopback.IP(t, "netns del %s", there)
	loopback.IP(t, "link add left type veth peer name right netns %s", there)
	loopback.IP(t, "addr add 10.78.0.1/24 dev left")
	loopback.IP(t, "-n %s addr add 10.78.0.2/24 dev right", there)
	loopback.IP(t, "link set left up")
	loopback.IP(t, "-n %s link set right up", there)
	w, err := NewInterface("left")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.Follow(func(_, _ Link) {})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mac, err := w.AwaitNeighbor(ctx, netip.MustParseAddr("10.78.0.2"))
	if err != nil || mac == (MAC{}) || mac == w.Link().MAC {
		t.Fatalf("%x, %v", mac, err)
	}
	w.resolveTime /= 100
	if _, err := w.AwaitNeighbor(ctx, netip.MustParseAddr("10.78.0.3")); !errors.Is(err, ErrNoNeighbor) {
		t.Errorf("a host that does not exist: %v", err)
	}
	w.resolveTime = resolveTime
	ended := make(chan error)
	go func() {
		_, err := w.AwaitNeighbor(ctx, netip.MustParseAddr("10.78.0.4"))
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	w.Close()
	if err := <-ended; err == nil {
		t.Error("a closed interface has found a host")
	}
	if _, err := NewInterface("lo"); !errors.Is(err, ErrNotEthernet) {
		t.Errorf("lo: %v", err)
	}
}

// Reading any messages ends without a panic, and adds no other link to the state.
func FuzzLinkBook(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(0), []byte{0})
	for _, m := range []*syscall.NetlinkMessage{linkMessage(unix.RTM_NEWLINK, 0, 7, 1),
		addrMessage(unix.RTM_NEWADDR, 0, 7, "fd78::1/64"),
		neighborMessage(7, unix.NUD_REACHABLE, "192.0.2.9", MAC{2})} {
		f.Add(m.Header.Type, m.Data)
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		b := linkState{link: Link{Index: 7}, neighbors: &neighbors{socks: [2]int{-1, -1}}}
		b.handle(message(typ, data...))
		if b.link.Index != 7 || len(b.link.Addrs) > 1 || len(b.neighbors.known) > 1 {
			t.Errorf("%+v", b.link)
		}
	})
}
