// SPDX-License-Identifier: Apache-2.0

package roce1_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// Streams between addresses of interfaces: the kernel is asked for the peer's Ethernet address.
func TestStreams(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 1500, "10.91.1")
	loopback.IP(t, "addr add fd91::1/64 dev %s nodad", left)
	there.ip(t, "addr add fd91::2/64 dev %s nodad", right)
	a, b := (*world)(nil).open(t, left, nil), there.open(t, right, nil)
	for _, address := range []string{"10.91.1.2:7471", "[fd91::2]:7472"} {
		l, err := rnet.Listen(t.Context(), b, address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); io.Copy(c, c) }()
			}
		}()
		c, err := rnet.Dial(within(t), a, address)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte("there and back "), 100_000)
		go func() { c.Write(want); c.CloseWrite() }()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes came back of %d, %v", address, len(got), len(want), err)
		}
		if from, _, _ := net.SplitHostPort(c.LocalAddr().String()); netip.MustParseAddr(
			from).Is4() != !strings.Contains(address, "[") {
			t.Errorf("to %s from %s", address, from)
		}
		c.Close()
		l.Close()
	}
	// A host that does not exist is reported after a few seconds, and so is a host beyond the link.
	for _, address := range []string{"10.91.1.77:7471", "203.0.113.1:7471"} {
		_, err := cm.Dial(within(t), a, address)
		if !errors.Is(err, cm.ErrNoAddr) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A listener at one of an interface's addresses has no other address; a listener without an address has
// all of them.
func TestListenerAddress(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 1500, "10.91.2")
	there.ip(t, "addr add 10.91.2.3/24 dev %s", right)
	a, b := (*world)(nil).open(t, left, nil), there.open(t, right, nil)
	listen := func(at string) {
		id, err := cm.NewID(cm.NewEventChannel(), b, cm.TCP)
		if err != nil {
			t.Fatal(err)
		}
		if err := id.Bind(netip.MustParseAddrPort(at)); err != nil {
			t.Fatal(err)
		}
		l, err := cm.ListenID(id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept(t.Context())
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		}()
	}
	listen("10.91.2.3:7001")
	listen("0.0.0.0:7002")
	for address, want := range map[string]bool{"10.91.2.3:7001": true, "10.91.2.2:7001": false, "10.91.2.3:7002": true,
		"10.91.2.2:7002": true} {
		c, err := cm.Dial(within(t), a, address)
		if err == nil {
			if got := c.ID().PeerAddr().String(); got != address {
				t.Errorf("connected to %s, not %s", got, address)
			}
			c.Close()
		}
		var rejected *cm.RejectError
		if (err == nil) != want || err != nil && !errors.As(err, &rejected) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The GID of an IPv4 group is the GID that librdmacm's peers use over RoCE v1.
func TestGroupOfIPv4(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	left, _ := veth(t, nil, 1500, "10.91.5")
	dev := (*world)(nil).open(t, left, nil)
	events := cm.NewEventChannel()
	id, err := cm.NewID(events, dev, cm.UDP)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	if err := id.Bind(netip.MustParseAddrPort("10.91.5.1:7000")); err != nil {
		t.Fatal(err)
	}
	if err := id.JoinMulticast(netip.MustParseAddr("239.1.2.3")); err != nil {
		t.Fatal(err)
	}
	e, err := events.Get(within(t))
	if err != nil || e.Type != cm.MulticastJoin {
		t.Fatalf("%+v, %v", e, err)
	}
	want := verbs.AHAttr{DGID: verbs.GID{0xff, 0x0e, 10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3},
		SGIDIndex: e.UD.AH.SGIDIndex}
	if row, err := dev.GIDs(1); err != nil || e.UD.AH != want ||
		row[e.UD.AH.SGIDIndex].GID.Addr().String() != "10.91.5.1" {
		t.Errorf("%+v, want %+v, from %v, %v", e.UD.AH, want, row, err)
	}
}

// Creating an address handle waits until the kernel knows the peer, so that not even the first datagram
// is lost; a peer that does not exist is an error.
func TestAddressHandle(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 1500, "10.91.6")
	a := (*world)(nil).open(t, left, nil)
	there.open(t, right, nil)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	gids, err := a.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	row := gids[len(gids)-1].Index
	handle := func(to string) error {
		_, err := pd.CreateAH(verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(to)), SGIDIndex: row})
		return err
	}
	if err := handle("10.91.6.2"); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("ip", "neigh", "show", "10.91.6.2").CombinedOutput(); err != nil ||
		!bytes.Contains(out, []byte("lladdr")) {
		t.Errorf("the kernel does not know the peer: %s, %v", out, err)
	}
	if err := handle("10.91.6.99"); !errors.Is(err, verbs.ErrNotFound) || !strings.Contains(err.Error(), "10.91.6.99") {
		t.Errorf("a peer that does not exist: %v", err)
	}
}

// write writes the whole of one end's memory to the other's, and checks it there.
func write(t testing.TB, from, to *pair.End) {
	t.Helper()
	var want []byte
	from.MR.Do(func(b []byte) {
		for i := range b {
			b[i] = byte(i>>10) ^ byte(i)
		}
		want = bytes.Clone(b)
	})
	to.MR.Do(func(b []byte) { clear(b) })
	wr := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{from.MR.SGE(0, len(want))}, Remote: to.MR.Remote(),
		Flags: verbs.Signaled}
	if err := from.QP.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if n, err := from.CQ.Wait(within(t), wc[:]); n != 1 || wc[0].Status != verbs.StatusSuccess {
		t.Fatalf("%v, %v", wc[0].Status, err)
	}
	to.MR.Do(func(b []byte) {
		if !bytes.Equal(b, want) {
			t.Error("what was written differs")
		}
	})
}

// A device reaches itself, by its link-local GID and by an address; no frame leaves it.
func TestOwn(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 9000, "10.91.3")
	dev, peer := (*world)(nil).open(t, left, nil), there.open(t, right, nil)
	for row := range 2 {
		ends := pair.Connect(t, dev, dev, pair.Options{Type: verbs.RC, Size: 4 << 20, Depth: 16, Row: row})
		write(t, &ends[0], &ends[1])
		write(t, &ends[1], &ends[0])
	}
	if n := loopback.Counter(t, peer, "rcvd_pkts"); n != 0 {
		t.Errorf("the peer has received %d packets", n)
	}
}

// A ring that overflows loses frames, which are counted and sent again.
func TestOverflow(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 1500, "")
	a, b := (*world)(nil).open(t, left, nil), there.open(t, right, &roce1.Options{Slots: 1})
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 8 << 20, Depth: 16})
	for range 100 {
		write(t, &ends[0], &ends[1])
		if loopback.Counter(t, b, "dropped_receive_buffer_full") > 0 {
			return
		}
	}
	t.Error("a send of 64 packets has always found room in a ring of 15 slots")
}

// The port follows its interface: addresses, state, MTU.
func TestFollow(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	left, right := veth(t, nil, 1500, "")
	dev := (*world)(nil).open(t, left, nil)
	rows := func() (s []string) {
		gids, err := dev.GIDs(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gids[1:] {
			s = append(s, g.GID.Addr().String())
		}
		return s
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(timeout); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	event := func(want verbs.EventType) {
		t.Helper()
		e, err := dev.Event(within(t))
		if err != nil || e.Type != want {
			t.Fatalf("event %v, %v; want %v", e.Type, err, want)
		}
	}
	loopback.IP(t, "addr add 10.91.4.1/24 dev %s", left)
	event(verbs.EventGIDChange)
	loopback.IP(t, "addr add 10.91.4.2/24 dev %s", left)
	event(verbs.EventGIDChange)
	if got := rows(); !slices.Equal(got, []string{"10.91.4.1", "10.91.4.2"}) {
		t.Errorf("rows %v", got)
	}
	loopback.IP(t, "addr del 10.91.4.2/24 dev %s", left)
	event(verbs.EventGIDChange)
	port := func() verbs.PortAttr { p, _ := dev.Port(1); return p }
	if p := port(); p.State != verbs.PortActive || p.ActiveMTU != verbs.MTU1024 || p.LinkMTU != 1500 {
		t.Errorf("%+v", p)
	}
	loopback.IP(t, "link set %s mtu 9000", left)
	eventually("a path MTU of 4096", func() bool { return port().ActiveMTU == verbs.MTU4096 })
	loopback.IP(t, "link set %s down", right)
	event(verbs.EventPortError)
	if port().State != verbs.PortDown {
		t.Error("the port has no link and is not down")
	}
	loopback.IP(t, "link set %s up", right)
	event(verbs.EventPortActive)
}

// A VLAN's interface has a device of its own. Its packets do not get to the device of the interface below.
func TestVLAN(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	there := newWorld(t)
	left, right := veth(t, there, 9000, "")
	if out, err := exec.Command("ip", "link", "add", "link", left, "name", "tagged", "type", "vlan", "id",
		"100").CombinedOutput(); err != nil {
		t.Skipf("no interface of a VLAN can be made: %s", out)
	}
	loopback.IP(t, "link set tagged up")
	there.ip(t, "link add link %s name tagged type vlan id 100", right)
	there.ip(t, "link set tagged up")
	running(t, "tagged")
	low, below := (*world)(nil).open(t, left, nil), there.open(t, right, nil)
	ends := pair.Connect(t, (*world)(nil).open(t, "tagged", nil), there.open(t, "tagged", nil),
		pair.Options{Type: verbs.RC, Size: 1 << 20, Depth: 16})
	write(t, &ends[0], &ends[1])
	for _, dev := range []*verbs.Device{low, below} {
		metrics, err := dev.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			if m.Value != 0 {
				t.Errorf("%s: %s is %d", dev.Name(), m.FlatName(), m.Value)
			}
		}
	}
	plain := pair.Connect(t, low, below, pair.Options{Type: verbs.RC, Size: 1 << 20, Depth: 16})
	write(t, &plain[0], &plain[1])
}

// A frame with the tag of a VLAN that has no interface here is not for the device, one with the tag that
// means no VLAN is.
func TestTags(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	left, right := veth(t, nil, 1500, "")
	dev := (*world)(nil).open(t, right, nil)
	from, err := net.InterfaceByName(left)
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.InterfaceByName(right)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	src, dst := [6]byte(from.HardwareAddr), [6]byte(to.HardwareAddr)
	frame := roce1.NewFrame(src, dst, roce1.LinkLocal(src), roce1.LinkLocal(dst), []byte("data"))
	send := func(b []byte) {
		t.Helper()
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: from.Index}); err != nil {
			t.Fatal(err)
		}
	}
	tagged := func(tci byte) []byte { return slices.Insert(bytes.Clone(frame), 12, 0x81, 0x00, 0x00, tci) }
	other := bytes.Clone(frame)
	other[0] ^= 4 // for another host: interfaces see such while they are promiscuous
	loopback.IP(t, "link set %s promisc on", right)
	for _, b := range [][]byte{tagged(100), other, tagged(0), frame} {
		send(b)
	}
	for end := time.Now().Add(timeout); loopback.Counter(t, dev,
		"dropped_no_such_qp") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 2 frames taken", loopback.Counter(t, dev, "rcvd_pkts"))
		}
	}
	if n := loopback.Counter(t, dev, "rcvd_pkts"); n != 2 {
		t.Errorf("%d frames taken, want 2", n)
	}
}

// Without the right to raw sockets the error names it. Interfaces that are not Ethernet, or open already,
// are refused.
func TestRefusals(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	left, _ := veth(t, nil, 1500, "")
	dev := (*world)(nil).open(t, left, nil)
	for iface, words := range map[string]string{left: "open already", "lo": "no Ethernet interface",
		"nosuch0": "ip link"} {
		if _, err := roce1.Open(iface, nil); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", iface, err)
		}
	}
	dev.Close()
	(*world)(nil).open(t, left, nil).Close()
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // never undone: the thread, and its lack of rights, end with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capset(&header, &data[0]); err != nil {
			refused <- err
			return
		}
		_, err := roce1.Open(left, nil)
		refused <- err
	}()
	if err := <-refused; !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without capabilities: %v", err)
	}
}

// Wireshark reads the recording as RoCE v1, and its ICRCs are right.
func TestTrace(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	name := filepath.Join(t.TempDir(), "roce1.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := trace.NewWriter(file, "roce1:left")
	if err != nil {
		t.Fatal(err)
	}
	there := newWorld(t)
	left, right := veth(t, there, 1500, "")
	a, b := (*world)(nil).open(t, left, &roce1.Options{Trace: w}), there.open(t, right, nil)
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 5000, Depth: 16})
	write(t, &ends[0], &ends[1])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tshark.Need(t)
	run := func(args ...string) string {
		t.Helper()
		return tshark.Read(t, name, args...)
	}
	// First, middle and last packets of the WRITE. If the peer gets no processor for a while they are sent again.
	var got []string
	seen := map[string]bool{}
	for packet := range strings.Lines(run("-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn",
		"-Y", "frame.packet_flags_direction == 2 && eth.type == 0x8915")) {
		if opcode, psn, _ := strings.Cut(packet, "\t"); !seen[psn] {
			seen[psn] = true
			got = append(got, opcode)
		}
	}
	if !slices.Equal(got, []string{"6", "7", "7", "7", "8"}) {
		t.Errorf("opcodes sent: %v", got)
	}
	if got := run("-Y", "frame.packet_flags_direction == 1 && infiniband.bth.opcode == 17"); got == "" {
		t.Error("no acknowledgement was recorded")
	}
	if bad := run("-Y",
		"_ws.malformed || _ws.expert.severity >= warning || !infiniband.invariant.crc || !infiniband.grh"); bad != "" {
		t.Errorf("packets with something wrong:\n%s", bad)
	}
	grhs := strings.Fields(run("-T", "fields", "-e", "infiniband.grh.sgid", "-Y", "frame.packet_flags_direction == 2"))
	gids, err := a.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	if len(grhs) == 0 || netip.MustParseAddr(strings.TrimPrefix(grhs[0], "GID:")) != gids[0].GID.Addr() ||
		gids[0].GID == (ib.GID{}) {
		t.Errorf("source GID %v, want %v", grhs, gids[0].GID.Addr())
	}
}
