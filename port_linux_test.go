// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const patience = 2 * time.Minute // of a machine that does much else

// vethPair makes the interfaces left and right, one the other's peer, in a namespace of the
// test's own. False: the test runs elsewhere.
func vethPair(t *testing.T) bool {
	t.Helper()
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return false
	}
	loopback.SetUp(t, "link add left type veth peer name right")
	loopback.IP(t, "link set left up")
	loopback.IP(t, "link set right up")
	return true
}

// running waits until an interface has its link.
func running(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
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

// resources counts the goroutines and sockets of the process.
func resources(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := runtime.NumGoroutine()
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// A port's state and events follow the address and its interface.
func TestPortEvents(t *testing.T) {
	if !vethPair(t) {
		return
	}
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	tls, err := ca.Config(netip.MustParseAddr("10.78.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"roce", "iwarp", "iwarps", "iwarp+sctp"} {
		t.Run(kind, func(t *testing.T) {
			loopback.IP(t, "addr add 10.78.0.1/24 dev left")
			loopback.IP(t, "addr add fd78::1/64 dev left nodad")
			running(t, "left")
			t.Cleanup(func() {
				loopback.IP(t, "addr flush dev left")
				loopback.IP(t, "addr flush dev right")
			})
			testPortEvents(t, kind, []ramjet.Option{ramjet.WithTLS(tls)})
		})
	}
}

// A port's MTU follows the interface, as that of Linux' devices does, without an event; later messages have
// packets of that size.
func TestPortMTU(t *testing.T) {
	if !vethPair(t) {
		return
	}
	loopback.IP(t, "addr add 10.78.0.1/24 dev left")
	running(t, "left")
	for _, kind := range []string{"roce", "iwarp"} {
		dev, err := ramjet.Open(kind + ":10.78.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		mtu := func() (a verbs.PortAttr) {
			if a, err = dev.Port(1); err != nil {
				t.Fatal(err)
			}
			return a
		}
		for _, want := range []struct {
			link   string
			active verbs.MTU
		}{{"9000", verbs.MTU4096}, {"1500", verbs.MTU1024}} {
			loopback.IP(t, "link set left mtu %s", want.link)
			for end := time.Now().Add(patience); mtu().ActiveMTU != want.active ||
				strconv.Itoa(mtu().LinkMTU) != want.link; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: MTU %v of a link of %s bytes, which has %d, it says", kind, mtu().ActiveMTU,
						want.link, mtu().LinkMTU)
				}
			}
			if kind == "roce" {
				testDatagramBound(t, dev, want.active.Bytes())
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, next := range []struct {
			command string
			want    verbs.EventType
		}{{"down", verbs.EventPortError}, {"up", verbs.EventPortActive}} {
			loopback.IP(t, "link set right %s", next.command)
			if e, err := dev.Event(ctx); err != nil || e.Type != next.want {
				t.Errorf("%s: %v, %v: the first event is to be %v", kind, e.Type, err, next.want)
			}
		}
	}
}

// testDatagramBound sends datagrams of n bytes and of one more, which is one too many. The device
// hears of the port's MTU just after the port has it.
func testDatagramBound(t *testing.T, dev *verbs.Device, n int) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := dev.AllocPD()
	must(err)
	mr, err := pd.RegMR(make([]byte, n+1), verbs.LocalWrite)
	must(err)
	cq, err := dev.CreateCQ(8, nil)
	must(err)
	gids, err := dev.GIDs(1)
	must(err)
	ah, err := pd.CreateAH(verbs.AHAttr{DGID: gids[0].GID, Port: 1})
	must(err)
	sends := func(n int) verbs.Status {
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq})
		must(err)
		defer qp.Close()
		must(qp.StartUD(1))
		must(qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: ah, RemoteQPN: 2, RemoteQKey: 1,
			SGL: []verbs.SGE{mr.SGE(0, n)}}))
		var wc [1]verbs.WC
		for cq.Poll(wc[:]) == 0 {
		}
		return wc[0].Status
	}
	for end := time.Now().Add(patience); sends(n) != verbs.StatusSuccess ||
		sends(n+1) != verbs.StatusLocalLengthError; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes: %v, one more: %v", n, sends(n), sends(n+1))
		}
	}
}

func testPortEvents(t *testing.T, kind string, opts []ramjet.Option) {
	open := func(addr string) *verbs.Device {
		dev, err := ramjet.Open(kind+":"+addr, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	before := resources(t)
	dev, dev6 := open("10.78.0.1"), open("fd78::1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type events = []verbs.EventType
	const lost, found, gid = verbs.EventPortError, verbs.EventPortActive, verbs.EventGIDChange
	for _, step := range []struct {
		commands []string
		want     events
		state    verbs.PortState
		want6    events
		state6   verbs.PortState
	}{
		// left's cable is out
		{[]string{"link set right down"}, events{lost}, verbs.PortDown, events{lost}, verbs.PortDown},
		{[]string{"link set right up"}, events{found}, verbs.PortActive, events{found}, verbs.PortActive},
		{[]string{"addr del 10.78.0.1/24 dev left"}, events{gid, lost}, verbs.PortDown, nil, verbs.PortActive},
		// it has moved
		{[]string{"addr add 10.78.0.1/24 dev right"}, events{gid, found}, verbs.PortActive, nil, verbs.PortActive},
		// Right's cable is out, and left loses its IPv6 addresses.
		{[]string{"link set left down"}, events{lost}, verbs.PortDown, events{gid, lost}, verbs.PortDown},
		{[]string{"link set left up", "addr add fd78::1/64 dev left nodad"}, events{found}, verbs.PortActive,
			events{gid, found}, verbs.PortActive},
	} {
		for _, c := range step.commands {
			loopback.IP(t, "%s", c)
		}
		check := func(dev *verbs.Device, want events, state verbs.PortState) {
			t.Helper()
			var got events
			for range want {
				e, err := dev.Event(ctx)
				if err != nil {
					t.Fatalf("%s: %v: after %v: %v, want %v", dev.Name(), step.commands, got, err, want)
				}
				if e.Port != 1 {
					t.Errorf("%s: %v: %v of port %d", dev.Name(), step.commands, e.Type, e.Port)
				}
				got = append(got, e.Type)
			}
			slices.Sort(got) // which comes first is the system's affair
			slices.Sort(want)
			if p, err := dev.Port(1); err != nil || p.State != state || !slices.Equal(got, want) {
				t.Fatalf("%s: %v: events %v, state %v, %v; want %v, %v", dev.Name(), step.commands, got, p.State, err,
					want, state)
			}
		}
		check(dev, step.want, step.state)
		check(dev6, step.want6, step.state6)
	}
	dev.Close()
	dev6.Close()
	for end := time.Now().Add(patience); resources(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines and sockets, %d before", resources(t), before)
		}
	}
}

// While a port is down its packets are lost, as with a cable that is pulled: work requests posted
// then complete when the port is back before their retries have run out.
func TestPortDownLosesPackets(t *testing.T) {
	if !vethPair(t) {
		return
	}
	loopback.IP(t, "addr add 10.78.0.1/32 dev left")
	loopback.IP(t, "addr add 10.78.0.2/32 dev left")
	running(t, "left")
	for _, kind := range []string{"roce", "iwarp"} {
		t.Run(kind, func(t *testing.T) {
			var devs [2]*verbs.Device
			var qps [2]*verbs.QP
			var cqs [2]*verbs.CQ
			var mrs [2]*verbs.MR
			var pds [2]*verbs.PD
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, addr := range []string{"10.78.0.1", "10.78.0.2"} {
				var err error
				devs[i], err = ramjet.Open(kind + ":" + addr)
				must(err)
				defer devs[i].Close()
				pds[i], err = devs[i].AllocPD()
				must(err)
				cqs[i], err = devs[i].CreateCQ(16, nil)
				must(err)
				mrs[i], err = pds[i].RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
				must(err)
				qps[i], err = pds[i].CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cqs[i], RecvCQ: cqs[i]})
				must(err)
			}
			var eps [2]verbs.Endpoint
			for i, q := range qps {
				var err error
				eps[i], err = q.Endpoint(0)
				must(err)
			}
			for i, q := range qps {
				must(q.Connect(eps[i], eps[1-i], &verbs.ConnectOptions{Timeout: 20})) // 4.3 s, and that several times
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			write := func() {
				must(qps[0].PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
					SGL:    []verbs.SGE{mrs[0].SGE(0, 64)},
					Remote: mrs[1].Remote()}))
			}
			done := func() {
				t.Helper()
				var wc [1]verbs.WC
				_, err := cqs[0].Wait(ctx, wc[:])
				must(err)
				if wc[0].Status != verbs.StatusSuccess {
					t.Fatal(wc[0].Status)
				}
			}
			event := func(want verbs.EventType) {
				t.Helper()
				for {
					e, err := devs[0].Event(ctx)
					must(err)
					if e.Type == want {
						return
					}
				}
			}
			write()
			done()
			for _, c := range [][2]string{{"link set left down", "link set left up"},
				{"addr del 10.78.0.1/32 dev left", "addr add 10.78.0.1/32 dev left"}} {
				loopback.IP(t, "%s", c[0])
				event(verbs.EventPortError)
				write()
				loopback.IP(t, "%s", c[1])
				event(verbs.EventPortActive)
				done()
			}
		})
	}
}
