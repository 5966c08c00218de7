// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// TestConformanceShared runs the suite between devices that all have one address.
func TestConformanceShared(t *testing.T) {
	addr := sharedAddress(t, false)
	f := conformance.Fixture{Group: group4, Serial: true, Beside: true, Variant: true}
	f.Open = func(t testing.TB) *verbs.Device {
		t.Helper()
		dev, err := roce.Open(addr, nil)
		if errors.Is(err, syscall.EADDRINUSE) { // some tests open more devices than can have one address
			addr = sharedAddress(t, false)
			return f.Open(t)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	f.Missing = withoutMulticast("", f.Group)
	conformance.Run(t, f)
}

// sharedAddress returns addresses for a test of several processes: of IPv4 one of its own.
func sharedAddress(t testing.TB, v6 bool) string {
	if v6 {
		openLoopback6(t).Close()
		return "::1"
	}
	dev, addr := open(t, nil)
	dev.Close()
	return addr.String()
}

// request is a REQ of the connection manager for a service id.
func request(service uint64) []byte {
	h := mad.CMHeader(mad.AttrREQ, 1)
	b := append(h.Append(nil), make([]byte, mad.DataLen)...)
	binary.BigEndian.PutUint64(b[mad.HeaderLen+8:], service)
	return b
}

// TestProcesses lets processes of one address talk to each other, kills the first of them
// in the middle of that, and adds another.
func TestProcesses(t *testing.T) {
	t.Parallel()
	t.Run("IPv4", func(t *testing.T) { testProcesses(t, sharedAddress(t, false)) })
	t.Run("IPv6", func(t *testing.T) {
		if inNamespace(t) { // where ::1 is nobody else's
			testProcesses(t, sharedAddress(t, true))
		}
	})
}

func testProcesses(t *testing.T, address string) {
	nothing := func() {}
	first, a, b := startChild(t, address, nil), startChild(t, address, nil), startChild(t, address, nil)
	slots := map[uint32]bool{}
	for _, c := range []*child{first, a, b} {
		if c.open.Err != "" {
			t.Fatal(c.open.Err)
		}
		if slot := c.open.IDs >> 28; slots[slot] || uint32(c.open.Endpoint.QPN)>>20 != slot ||
			uint32(c.open.UD)>>20 != slot {
			t.Fatalf("IDs %#x, queue pairs %#x and %#x: not a slot of its own", c.open.IDs, c.open.Endpoint.QPN,
				c.open.UD)
		} else {
			slots[slot] = true
		}
	}
	joinChildren(a, b)
	transfer(a, b, 1000, "", nothing)
	transfer(b, a, 1000, "", nothing)
	transfer(a, b, 40, "UD", nothing)
	transfer(b, first, 40, "UD", nothing)

	const service = 0x01061234
	a.tell(order{Op: "claim", Service: service})
	a.ok(false)
	for _, c := range []*child{first, b} {
		c.tell(order{Op: "claim", Service: service})
		if r := c.wait(); !strings.Contains(r.Err, "0x1061234") || !strings.Contains(r.Err, "another process") {
			t.Errorf("claiming a service of another process: %+v", r)
		}
	}
	askUntilHeard(t, address, a, service)

	transfer(a, b, 20000, "", first.kill)
	askUntilHeard(t, address, a, service)

	late := startChild(t, address, nil)
	if late.open.Err != "" || late.open.IDs != first.open.IDs {
		t.Fatalf("after one was killed: %+v, want IDs %#x", late.open, first.open.IDs)
	}
	transfer(late, b, 40, "UD", nothing)
	transfer(b, late, 40, "UD", nothing)
	a.kill()
	b.tell(order{Op: "claim", Service: service}) // of one who is gone
	b.ok(false)
	askUntilHeard(t, address, b, service)
}

// TestStoppedProcess stops the process that leads: the others reach each other's connection
// managers, and newcomers join. When it goes on, it is one of them.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	address := sharedAddress(t, false)
	first := startChild(t, address, nil)
	a, b := startChild(t, address, nil), startChild(t, address, nil)
	for _, c := range []*child{first, a, b} {
		if c.open.Err != "" {
			t.Fatal(c.open.Err)
		}
	}
	const service = 0x01064321
	a.tell(order{Op: "claim", Service: service})
	a.ok(false)
	joinChildren(a, b)

	first.stop()
	askUntilHeard(t, address, a, service) // by a newcomer
	transfer(a, b, 40, "", func() {})
	first.signal(syscall.SIGCONT)
	first.tell(order{Op: "claim", Service: service + 1})
	first.ok(false)
	askUntilHeard(t, address, first, service+1)
	askUntilHeard(t, address, a, service)
}

// TestStoppedAlone opens the address of a process that is stopped.
func TestStoppedAlone(t *testing.T) {
	t.Parallel()
	address := sharedAddress(t, false)
	c := startChild(t, address, nil)
	c.stop()
	dev, err := roce.Open(address, nil)
	if err == nil {
		dev.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d, which does not answer", c.cmd.Process.Pid)) {
		t.Fatalf("opening the address of a process that is stopped: %v", err)
	}
	c.signal(syscall.SIGCONT)
	dev, err = roce.Open(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()
}

// askUntilHeard sends a REQ from another device of the address until the child has it, as
// a manager does: it may get lost while there is no leader.
func askUntilHeard(t *testing.T, address string, c *child, service uint64) {
	t.Helper()
	dev, err := roce.Open(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	g, err := umad.Open(dev, 1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
	if err != nil {
		t.Fatal(err)
	}
	c.tell(order{Op: "mad", Service: service})
	heard := make(chan report, 1)
	go func() {
		var r report
		c.out.Decode(&r)
		heard <- r
	}()
	to := umad.Path{AH: verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(address))}}
	for tries := 0; ; tries++ {
		if err := g.Send(to, request(service)); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-heard:
			if r.Err != "" {
				t.Fatal(r.Err)
			}
			return
		case <-time.After(100 * time.Millisecond):
			if tries == 1200 {
				t.Fatal("nobody hears requests for a claimed service")
			}
		}
	}
}

// TestUnclaimed asks for a service that nobody has claimed, where the device that leads has
// no connection manager: one that has hears of it.
func TestUnclaimed(t *testing.T) {
	address := sharedAddress(t, false)
	leader, err := roce.Open(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer leader.Close()
	var g [2]*umad.Agent
	for i := range g {
		dev, err := roce.Open(address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		if g[i], err = umad.Open(dev, 1, ib.QP1,
			umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}}); err != nil {
			t.Fatal(err)
		}
	}
	to := umad.Path{AH: verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(address))}}
	for _, hears := range []*umad.Agent{g[0], g[1]} {
		if err := g[1].Send(to, request(42)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, _, err := hears.Recv(ctx, make([]byte, umad.Len)); err != nil {
			t.Fatal(err)
		}
		g[0].Close()
	}
}

// TestClasses has devices of one address with agents of different classes: a request of a class reaches the device that
// has an agent for it, and an answer the one that asked.
func TestClasses(t *testing.T) {
	address := sharedAddress(t, false)
	to := umad.Path{AH: verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(address))}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var devs [3]*verbs.Device
	agent := func(i int, spec umad.Spec) *umad.Agent {
		t.Helper()
		a, err := umad.Open(devs[i], 1, ib.QP1, spec)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	gets := umad.Spec{Class: mad.ClassPerf, Version: 1, Methods: []mad.Method{mad.MethodGet}}
	var servers []*umad.Agent
	for i := range devs {
		var err error
		if devs[i], err = roce.Open(address, nil); err != nil {
			t.Fatal(err)
		}
		defer devs[i].Close()
		switch i {
		case 0: // alone at this time
			servers = append(servers, agent(0, gets))
		case 2:
			servers = append(servers, agent(2, gets))
		}
	}
	client := agent(1, umad.Spec{Class: mad.ClassPerf, Version: 1})
	b := make([]byte, umad.Len)
	for i, server := range servers {
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet,
			TID: uint64(i)}
		copy(b, h.Append(nil))
		if err := client.Send(to, b); err != nil {
			t.Fatal(err)
		}
		_, from, err := server.Recv(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		h.Decode(b)
		h.Method = mad.MethodGetResp
		copy(b, h.Append(nil))
		if err := server.Send(from, b); err != nil {
			t.Fatal(err)
		}
		if _, _, err := client.Recv(ctx, b); err != nil {
			t.Fatal(err)
		}
		if h.Decode(b); h.TID != client.Transaction(uint32(i)) {
			t.Errorf("answered with %+v", h)
		}
		server.Close() // the next one has to do
	}
}

// TestOtherUser opens an address that another user has.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	dev, addr := open(t, nil)
	defer dev.Close()
	c := startChild(t, addr.String(), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if !strings.Contains(c.open.Err, "in use by another user (uid 0)") || !strings.Contains(c.open.Err, addr.String()) {
		t.Errorf("got %q", c.open.Err)
	}
}

// TestShareLeaksNothing joins and leaves an address many times.
func TestShareLeaksNothing(t *testing.T) {
	address := sharedAddress(t, false)
	holder, err := openParty(address)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.dev.Close()
	var sockets, goroutines int
	for i := range 101 {
		if i == 1 {
			sockets, goroutines = countSockets(t), runtime.NumGoroutine()
		}
		dev, err := roce.Open(address, nil)
		if err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(2 * time.Minute); countSockets(t) > sockets ||
		runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d sockets and %d goroutines, before it were %d and %d", countSockets(t), runtime.NumGoroutine(),
				sockets, goroutines)
		}
	}
}

func countSockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, f := range files {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(to, "socket:") ||
			strings.HasPrefix(to, "/memfd:") {
			n++
		}
	}
	return n
}

// TestMixedTrain sends one train with packets for two devices of an address: the one that gets it forwards the other's
// packets.
func TestMixedTrain(t *testing.T) {
	address := sharedAddress(t, false)
	var parties [2]*party
	for i := range parties {
		p, err := openParty(address)
		if err != nil {
			t.Fatal(err)
		}
		defer p.dev.Close()
		parties[i] = p
	}
	var sock *netio.Socket
	for sock == nil {
		sock, _ = netio.Listen(netip.AddrPortFrom(loopback.Next(), ib.UDPPort), netio.Options{})
	}
	defer sock.Close()
	to := netip.AddrPortFrom(netip.MustParseAddr(address), ib.UDPPort)
	pseudo := ib.NewPseudoHeader(sock.LocalAddr(), to, true)
	train := sock.NewTrain()
	train.Reset(to)
	const each = 5
	for i := range 2 * each {
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: parties[i%2].ud.Num()},
			DETH: ib.DETH{QKey: shareQKey, SrcQP: 77}, Payload: make([]byte, 1000)}
		stamp(p.Payload, i/2)
		b := p.Append(nil)
		b = ib.AppendICRC(b, 0, pseudo.Seed(8+len(b)+ib.ICRCLen, uint16(i)))
		train.Begin(len(b))
		train.Add(b)
	}
	done := make(chan error, 2)
	posted := make(chan bool, 8)
	for _, p := range parties {
		p.out = json.NewEncoder(notify(posted))
		go func() { done <- p.receive(t.Context(), each, p.ud, 40) }()
		<-posted
	}
	if err := sock.Send(train); err != nil {
		t.Fatal(err)
	}
	for range parties {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("not all has arrived")
		}
	}
	forwarded := func() (n uint64) {
		for _, p := range parties {
			n += loopback.Counter(t, p.dev, "forwarded_pkts")
		}
		return n
	}
	// devices publish their counters later
	for end := time.Now().Add(time.Minute); forwarded() < each && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := forwarded(); n != each {
		t.Errorf("%d packets were forwarded, want %d", n, each)
	}
}

// notify is a writer that tells of each write.
type notify chan bool

func (n notify) Write(b []byte) (int, error) {
	n <- true
	return len(b), nil
}
