// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const patience = 2 * time.Minute // of a machine that does much else

// next returns the next event of the watch.
func next(t *testing.T, events <-chan verbs.EventType) verbs.EventType {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
		return 0
	}
}

// A watch follows the namespace of the thread that made it, whichever threads it runs in.
func TestNamespaceOfThread(t *testing.T) {
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	addr := netip.MustParseAddr("10.78.0.1")
	loopback.IP(t, "addr add 10.78.0.1/32 dev lo") // it stays, and is not meant
	events := make(chan verbs.EventType, 8)
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never undone: the thread ends with the goroutine
		made <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			for _, c := range []string{"link set lo up", "addr add 10.78.0.1/32 dev lo"} {
				if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
					return fmt.Errorf("ip %s: %w: %s", c, err, out)
				}
			}
			w := New(addr, 0, true, 65536)
			t.Cleanup(w.Close)
			w.Follow(func(e verbs.EventType) { events <- e }, func() {})
			out, err := exec.Command("ip", "addr", "del", "10.78.0.1/32", "dev", "lo").CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}()
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	for _, want := range []verbs.EventType{verbs.EventGIDChange, verbs.EventPortError} {
		if e := next(t, events); e != want {
			t.Errorf("%v, want %v", e, want)
		}
	}
}

// When changes are lost, because they came faster than they were read, everything is asked
// again.
func TestOverflow(t *testing.T) {
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	loopback.IP(t, "addr add 10.78.0.1/32 dev lo")
	f := newAddrFeed(netip.MustParseAddr("10.78.0.1"), 0)
	if f == nil {
		t.Fatal("no socket")
	}
	defer f.close()
	if err := f.raw.Control(
		func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil {
		t.Fatal(err)
	}
	told, flooded := make(chan state), make(chan struct{})
	f.start(func(s state, _ int) {
		told <- s
		<-flooded
	})
	if s := <-told; s != present|up {
		t.Fatalf("state %b at first", s)
	}
	var flood bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&flood, "addr add 10.79.0.%d/32 dev lo\n", i)
	}
	flood.WriteString("addr del 10.78.0.1/32 dev lo\n")
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = &flood
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	close(flooded)
	for end := time.After(patience); ; {
		select {
		case s := <-told:
			if s == 0 {
				return
			}
		case <-end:
			t.Fatal("the address is still believed to be there")
		}
	}
}

// message makes a netlink message.
func message(typ uint16, data ...byte) *syscall.NetlinkMessage {
	return &syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: typ, Len: uint32(unix.NLMSG_HDRLEN + len(data))},
		Data: data}
}

func linkMessage(typ uint16, family byte, index int32, flags uint32) *syscall.NetlinkMessage {
	b := []byte{family, 0, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint32(b, flags)
	return message(typ, binary.NativeEndian.AppendUint32(b, 0)...)
}

func addrMessage(typ uint16, flags byte, index int32, addr string) *syscall.NetlinkMessage {
	p := netip.MustParsePrefix(addr)
	b := []byte{unix.AF_INET, byte(p.Bits()), flags, 0}
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	value := p.Addr().AsSlice()
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, unix.IFA_ADDRESS)
	return message(typ, append(b, value...)...)
}

func TestTable(t *testing.T) {
	const running = unix.IFF_UP | unix.IFF_RUNNING
	tab := newTable(netip.MustParseAddr("fd78::1"), 0)
	for _, c := range []struct {
		what string
		m    *syscall.NetlinkMessage
		want state
	}{
		{"a link", linkMessage(unix.RTM_NEWLINK, 0, 7, running), 0},
		{"another address of the network", addrMessage(unix.RTM_NEWADDR, 0, 7, "fd78::2/64"), 0},
		{"an address that is not known to be unique",
			addrMessage(unix.RTM_NEWADDR, unix.IFA_F_TENTATIVE, 7, "fd78::1/64"), 0},
		{"an optimistic address", addrMessage(unix.RTM_NEWADDR, unix.IFA_F_TENTATIVE|unix.IFA_F_OPTIMISTIC, 7,
			"fd78::1/64"), present | up},
		{"the address", addrMessage(unix.RTM_NEWADDR, 0, 7, "fd78::1/64"), present | up},
		{"a bridge without the link", linkMessage(unix.RTM_DELLINK, unix.AF_BRIDGE, 7, 0), present | up},
		{"no cable", linkMessage(unix.RTM_NEWLINK, 0, 7, unix.IFF_UP), present},
		{"the cable", linkMessage(unix.RTM_NEWLINK, 0, 7, running), present | up},
		{"the address at a second link, which is not up", addrMessage(unix.RTM_NEWADDR, 0, 8, "fd78::1/128"),
			present | up},
		{"the first gone", linkMessage(unix.RTM_DELLINK, 0, 7, 0), present},
		{"the second up", linkMessage(unix.RTM_NEWLINK, 0, 8, running), present | up},
		{"the address gone", addrMessage(unix.RTM_DELADDR, 0, 8, "fd78::1/128"), 0},
	} {
		if tab.handle(c.m); tab.state() != c.want {
			t.Fatalf("%s: state %b, want %b", c.what, tab.state(), c.want)
		}
	}
	// All of 127.0.0.0/8 is local; of an IPv6 network only the address itself.
	for addr, want := range map[string]state{"127.1.2.3": present | up, "::2": 0} {
		tab := newTable(netip.MustParseAddr(addr), 0)
		tab.handle(linkMessage(unix.RTM_NEWLINK, 0, 1, running|unix.IFF_LOOPBACK))
		tab.handle(addrMessage(unix.RTM_NEWADDR, 0, 1, "127.0.0.1/8"))
		tab.handle(addrMessage(unix.RTM_NEWADDR, 0, 1, "::1/64"))
		if tab.state() != want {
			t.Errorf("%s: state %b, want %b", addr, tab.state(), want)
		}
	}
	// An address of a link is that link's only.
	tab = newTable(netip.MustParseAddr("fe80::1"), 3)
	tab.handle(linkMessage(unix.RTM_NEWLINK, 0, 4, running))
	if tab.handle(addrMessage(unix.RTM_NEWADDR, 0, 4, "fe80::1/64")); tab.state() != 0 {
		t.Errorf("state %b of another link's address", tab.state())
	}
}

// The MTU is that of the narrowest interface that has the address, and other interfaces do not matter.
func TestTableMTU(t *testing.T) {
	link := func(index int32, mtu uint32) *syscall.NetlinkMessage {
		m := linkMessage(unix.RTM_NEWLINK, 0, index, unix.IFF_UP)
		b := binary.NativeEndian.AppendUint16(m.Data, 8)
		b = binary.NativeEndian.AppendUint16(b, unix.IFLA_MTU)
		return message(unix.RTM_NEWLINK, binary.NativeEndian.AppendUint32(b, mtu)...)
	}
	tab := newTable(netip.MustParseAddr("10.78.0.1"), 0)
	for _, c := range []struct {
		what string
		m    *syscall.NetlinkMessage
		want int
	}{
		{"a link", link(7, 1500), 0},
		{"its address", addrMessage(unix.RTM_NEWADDR, 0, 7, "10.78.0.1/24"), 1500},
		{"a link that does not have it", link(8, 576), 1500},
		{"larger packets", link(7, 9000), 9000},
		{"a second link that has it", addrMessage(unix.RTM_NEWADDR, 0, 8, "10.78.0.1/24"), 576},
		{"the second gone", linkMessage(unix.RTM_DELLINK, 0, 8, 0), 9000},
		{"a link that does not say", linkMessage(unix.RTM_NEWLINK, 0, 7, unix.IFF_UP), 9000},
		{"nonsense", link(7, 1<<32-1), 1<<31 - 1},
	} {
		if tab.handle(c.m); tab.mtu() != c.want {
			t.Fatalf("%s: %d bytes, want %d", c.what, tab.mtu(), c.want)
		}
	}
}

// Reading any datagram ends without a panic.
func FuzzTake(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, m := range []*syscall.NetlinkMessage{linkMessage(unix.RTM_NEWLINK, 0, 7, 1),
		addrMessage(unix.RTM_NEWADDR, 0, 7, "fd78::1/64")} {
		b := binary.NativeEndian.AppendUint32(nil, m.Header.Len)
		b = binary.NativeEndian.AppendUint16(b, m.Header.Type)
		b = append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...)
		f.Add(append(b, m.Data...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tab := newTable(netip.MustParseAddr("fd78::1"), 0)
		feed := netlinkReader{handler: tab, seq: 1}
		if feed.take(b) == nil {
			tab.state()
			tab.mtu()
		}
	})
}
