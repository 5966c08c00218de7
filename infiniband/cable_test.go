// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// starWithRoom starts a fabric of a switch with three ports, two of which have adapters.
func starWithRoom(t *testing.T, o *infiniband.FabricOptions) *infiniband.Fabric {
	t.Helper()
	f := softfabric.Generate(t, "star:3", o)
	if err := f.Pull(infiniband.End{Node: "host-3", Port: 1}); err != nil {
		t.Fatal(err)
	}
	return f
}

// freePort returns a port of a switch that has no cable.
func freePort(t *testing.T, f *infiniband.Fabric) infiniband.End {
	t.Helper()
	v := f.View()
	used := make(map[infiniband.End]bool)
	for _, c := range v.Cables {
		used[c.A], used[c.B] = true, true
	}
	for _, n := range v.Nodes {
		for _, p := range n.Ports {
			if e := (infiniband.End{Node: n.Name, Port: p.Number}); n.Type == infiniband.Switch && !used[e] &&
				p.Remote == "" {
				return e
			}
		}
	}
	t.Fatal("no switch has a port without a cable")
	return infiniband.End{}
}

// portAt returns the view of a port.
func portAt(f *infiniband.Fabric, e infiniband.End) (p infiniband.PortView) {
	for _, n := range f.View().Nodes {
		if n.Name == e.Node {
			return n.Ports[e.Port-1]
		}
	}
	return p
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("never: ", what)
		}
	}
}

// joined are two fabrics with a cable between them. Only the first has a manager.
type joined struct {
	here, there       *infiniband.Fabric
	cable             *infiniband.Cable
	local, far        infiniband.End
	stopListening     func()
	address, listened string // that was joined, and that the fabric listens at
}

// join2 joins two fabrics, through the address that via returns for the second one's.
func join2(t *testing.T, via func(address string) string) *joined {
	t.Helper()
	there := starWithRoom(t, &infiniband.FabricOptions{NoManager: true, Host: 1})
	j := &joined{here: starWithRoom(t, nil), there: there}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	j.stopListening = stop
	a, err := there.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j.listened = a.String()
	j.address = j.listened
	if via != nil {
		j.address = via(j.listened)
	}
	j.local, j.far = freePort(t, j.here), freePort(t, there)
	if j.cable, err = j.here.Join(t.Context(), j.address, j.local, j.far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.cable.Close() })
	j.await(t)
	return j
}

// await waits until the subnet reaches through the cable.
func (j *joined) await(t *testing.T) {
	t.Helper()
	eventually(t, "both fabrics are one subnet", func() bool {
		return portAt(j.here, j.local).State == verbs.PortActive && portAt(j.there, j.far).State == verbs.PortActive &&
			j.there.AwaitActive(within(t)) == nil &&
			j.here.AwaitActive(within(t)) == nil && portAt(j.there, infiniband.End{Node: "host-1", Port: 1}).LID != 0
	})
}

// TestJoin: the manager of one fabric sweeps through the cable, and data go through it both ways.
func TestJoin(t *testing.T) {
	t.Parallel()
	j := join2(t, nil)
	a, b := device(t, j.here, "host-1"), device(t, j.there, "host-1")
	if gidOf(t, a) == gidOf(t, b) {
		t.Fatal("two adapters have one GID")
	}
	x := startTransfer(t, a, b, patient)
	x.more(t, 16<<20)
	l := pair.Echo(t, a, net.JoinHostPort(gidOf(t, a), "0"))
	c, err := cm.Dial(within(t), b, l.Addr().String(), cm.WithAckTimeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	if err := talk(within(t), c, 100); err != nil {
		t.Fatal(err)
	}
	t.Log("100 messages and their echoes, beside the stream:", time.Since(start))
	if p := portAt(j.here, j.local); !strings.Contains(p.Remote, j.far.String()) {
		t.Errorf("the other end is said to be %q", p.Remote)
	}

	if p := portAt(j.here, j.local); p.Counters.BufferOverrun > 0 {
		t.Errorf("%d packets came without credits", p.Counters.BufferOverrun)
	}

	// One end pulls the cable, and both are without.
	x.a.Close()
	x = startTransfer(t, a, b, hasty)
	if err := j.there.Pull(j.far); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the link is down", func() bool { return portAt(j.here, j.local).State == verbs.PortDown })
	<-j.cable.Done()
	x.end(t)
	again, err := j.here.Join(t.Context(), j.address, j.local, j.far)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	j.await(t)
}

// TestJoinEnds: an end that vanishes takes the link down; when it is back, so is the link.
func TestJoinEnds(t *testing.T) {
	t.Parallel()
	j := join2(t, nil)
	t.Run("switch off", func(t *testing.T) {
		if err := j.there.Power(j.far.Node, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the link is down", func() bool { return portAt(j.here, j.local).State == verbs.PortDown })
		if err := j.there.Power(j.far.Node, true); err != nil {
			t.Fatal(err)
		}
		j.await(t)
	})
	t.Run("host", func(t *testing.T) {
		j.stopListening()
		eventually(t, "the link is down", func() bool { return portAt(j.here, j.local).State == verbs.PortDown })
		eventually(t, "the address is free again", func() bool {
			_, err := j.there.Listen(t.Context(), j.listened)
			return err == nil
		})
		j.await(t)
	})
	t.Run("joiner", func(t *testing.T) {
		j.cable.Close()
		eventually(t, "the link is down",
			func() bool { p := portAt(j.there, j.far); return p.State == verbs.PortDown && p.Remote == "" })
	})
}

func TestJoinRefused(t *testing.T) {
	f := starWithRoom(t, nil)
	a, err := f.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	local := freePort(t, f)
	host := infiniband.End{Node: "host-1", Port: 1}
	for far, want := range map[infiniband.End]string{
		host:                        "has a cable already",
		{Node: "nobody", Port: 1}:   "no node",
		{Node: local.Node, Port: 0}: "is no end of a cable",
	} {
		if _, err := f.Join(t.Context(), a.String(), local, far); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", far, err, want)
		}
	}
	if _, err := f.Join(t.Context(), a.String(), host, local); err == nil ||
		!strings.Contains(err.Error(), "has a cable already") {
		t.Errorf("a port with a cable: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	nobody, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if _, err := f.Join(ctx, nobody.LocalAddr().String(), local, host); err == nil {
		t.Error("nobody answers, and yet there is a cable")
	}
	if p := portAt(f, local); p.Remote != "" {
		t.Errorf("a cable that nobody answers stays in its port, to %s", p.Remote)
	}
}

// proxy relays datagrams between a client and a server, and loses or repeats some.
type proxy struct {
	server  netip.AddrPort
	conn    *net.UDPConn // towards the client
	out     *net.UDPConn // towards the server
	client  atomic.Pointer[netip.AddrPort]
	percent atomic.Int32
	lost    atomic.Int64
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	p := &proxy{server: netip.MustParseAddrPort(server)}
	local := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))
	var err error
	if p.conn, err = net.ListenUDP("udp", local); err != nil {
		t.Fatal(err)
	}
	if p.out, err = net.ListenUDP("udp", local); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		p.carry(p.conn, p.out, func() *netip.AddrPort { return &p.server }, &p.client, rand.New(rand.NewPCG(1, 2)))
	})
	both.Go(func() { p.carry(p.out, p.conn, p.client.Load, nil, rand.New(rand.NewPCG(3, 4))) })
	t.Cleanup(func() {
		p.conn.Close()
		p.out.Close()
		both.Wait()
	})
	return p
}

func (p *proxy) carry(in, out *net.UDPConn, to func() *netip.AddrPort, from *atomic.Pointer[netip.AddrPort],
	r *rand.Rand) {
	buf := make([]byte, 1<<16)
	for {
		n, a, err := in.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if from != nil {
			from.Store(&a)
		}
		dest := to()
		if dest == nil {
			continue
		}
		percent := int(p.percent.Load())
		switch x := r.IntN(100); {
		case x < percent:
			p.lost.Add(1)
			continue
		case x < percent*3/2:
			out.WriteToUDPAddrPort(buf[:n], *dest) // twice
		case x < percent*2:
			buf[r.IntN(n)] ^= 1 << r.IntN(8)
		}
		out.WriteToUDPAddrPort(buf[:n], *dest)
	}
}

// TestJoinLossy loses, repeats and changes datagrams: the stream arrives as it was written, the link stays up,
// errors are counted, and lost credits come back.
func TestJoinLossy(t *testing.T) {
	t.Parallel()
	var p *proxy
	j := join2(t, func(address string) string {
		p = startProxy(t, address)
		return p.conn.LocalAddr().String()
	})
	x := startTransfer(t, device(t, j.here, "host-1"), device(t, j.there, "host-1"), patient)
	x.more(t, 1<<20)
	p.percent.Store(2)
	x.more(t, 4<<20)
	p.percent.Store(0)
	x.more(t, 16<<20)
	here, there := portAt(j.here, j.local), portAt(j.there, j.far)
	t.Logf("%d datagrams lost, %d and %d errors", p.lost.Load(), here.Counters.RcvErrors, there.Counters.RcvErrors)
	if p.lost.Load() == 0 || here.Counters.RcvErrors+there.Counters.RcvErrors == 0 {
		t.Error("nothing was counted of what the cable changed")
	}
	if n := here.Counters.BufferOverrun + there.Counters.BufferOverrun; n > 0 {
		t.Errorf("%d packets came without credits", n)
	}

	// Nothing comes through at all: the link goes down, and comes up again when it does.
	p.percent.Store(100)
	eventually(t, "the link is down", func() bool {
		return portAt(j.here, j.local).State == verbs.PortDown && portAt(j.there, j.far).State == verbs.PortDown
	})
	p.percent.Store(0)
	j.await(t)
}

// An address beyond the cable is found while a listener has it.
func TestJoinedAddresses(t *testing.T) {
	j := join2(t, nil)
	a, b := device(t, j.here, "host-1"), device(t, j.there, "host-1")
	for _, c := range []struct {
		from, to *verbs.Device
		address  string
	}{{a, b, "198.18.8.1:7001"}, {b, a, "198.18.0.1:7002"}} {
		l := pair.Echo(t, c.to, c.address)
		var conn *cm.Conn
		eventually(t, "the address is registered", func() bool {
			var err error
			conn, err = cm.Dial(within(t), c.from, l.Addr().String(), cm.WithAckTimeout(patient))
			if err != nil && !errors.Is(err, cm.ErrNoAddr) {
				t.Fatal(err)
			}
			return err == nil
		})
		if err := talk(within(t), conn, 10); err != nil {
			t.Error(err)
		}
		if conn.PeerAddr() != l.Addr() {
			t.Errorf("the peer is at %v, want %v", conn.PeerAddr(), l.Addr())
		}
		conn.Close()
	}
	if _, err := cm.Dial(within(t), a, "198.18.8.2:7001"); !errors.Is(err, cm.ErrNoAddr) {
		t.Errorf("an address that nobody listens at: %v", err)
	} else {
		t.Log(err)
	}
}
