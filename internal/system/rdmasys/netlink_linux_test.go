// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// chain makes a message about a chain of nftables.
func chain(family byte, hook, policy uint32, typ string) []byte {
	n := func(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
	b := appendAttr([]byte{family, 0, 0, 0}, unix.NFTA_CHAIN_TABLE, []byte("filter\x00"))
	b = appendAttr(b, unix.NFTA_CHAIN_NAME, []byte("input\x00"))
	b = appendAttr(b, unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, appendAttr(nil, unix.NFTA_HOOK_HOOKNUM, n(hook)))
	b = appendAttr(b, unix.NFTA_CHAIN_POLICY, n(policy))
	return appendAttr(b, unix.NFTA_CHAIN_TYPE, []byte(typ+"\x00"))
}

func TestChains(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{chain(unix.NFPROTO_INET, unix.NF_INET_LOCAL_IN, 0, "filter"), "{inet filter input true} true"},
		{chain(unix.NFPROTO_IPV4, unix.NF_INET_LOCAL_IN, 1, "filter"), "{ip filter input false} true"},
		{chain(unix.NFPROTO_IPV6, unix.NF_INET_LOCAL_OUT, 0, "filter"), "{ip6 filter input true} false"},
		{chain(unix.NFPROTO_IPV4, unix.NF_INET_LOCAL_IN, 1, "nat"), "{ip filter input false} false"},
		{chain(unix.NFPROTO_BRIDGE, unix.NF_INET_LOCAL_IN, 1, "filter"), "{   false} false"},
		{nil, "{   false} false"},
	} {
		f, ok := parseChain(c.b)
		if got := fmt.Sprint(f, ok); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestParsePFC(t *testing.T) {
	answer := appendAttr([]byte{0, 21, 0, 0}, 1, []byte("eth0\x00"))
	answer = appendAttr(answer, 13|unix.NLA_F_NESTED,
		appendAttr(appendAttr(nil, 1, make([]byte, 40)), 2, append([]byte{8, 0x18}, make([]byte, 134)...)))
	if p := parsePFC(answer, 13, 2); p == nil || *p != (PFC{8, 0x18}) || fmt.Sprint(Priorities(p.Enabled)) != "[3 4]" {
		t.Errorf("%+v", p)
	}
	if p := parsePFC(answer[:40], 13, 2); p != nil {
		t.Errorf("%+v of a message that is cut off", p)
	}
}

// Parsing any answer of the kernel ends without a panic.
func FuzzNetlink(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(chain(unix.NFPROTO_INET, unix.NF_INET_LOCAL_IN, 0, "filter"))
	f.Add(appendAttr(make([]byte, unix.SizeofRtMsg), unix.RTA_PREFSRC, []byte{192, 0, 2, 7}))
	f.Add(appendAttr([]byte{0, 21, 0, 0}, 13, appendAttr(nil, 2, []byte{8, 8})))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseChain(b)
		parsePFC(b, 13, 2)
		parseRoute(b)
		take(b, 1)
	})
}

// Routes, and how long packets may be on the way, between two namespaces.
func TestPath(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	if !loopback.InNamespace(t, 65536) {
		return
	}
	run := func(command string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", command, err, out)
		}
	}
	other := exec.Command("unshare", "-n", "sleep", "600")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	here, end := "", time.Now().Add(time.Minute)
	there := fmt.Sprintf("nsenter -t %d -n ", other.Process.Pid)
	for {
		mine, err1 := exec.Command("readlink", "/proc/self/ns/net").Output()
		his, err2 := exec.Command("readlink", fmt.Sprintf("/proc/%d/ns/net", other.Process.Pid)).Output()
		if here = string(mine); err1 == nil && err2 == nil && here != string(his) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the other namespace does not come")
		}
		time.Sleep(10 * time.Millisecond)
	}
	run(fmt.Sprintf("ip link add left type veth peer name right && ip link set right netns %d", other.Process.Pid))
	run("ip addr add 192.0.2.1/24 dev left && ip -6 addr add fd09::1/64 dev left nodad && ip link set left mtu 9000 up")
	run(there + "ip addr add 192.0.2.2/24 dev right; " + there + "ip -6 addr add fd09::2/64 dev right nodad; " + there +
		"ip link set right mtu 9000 up; " + there + "ip link set lo up")
	run(there + "sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit'")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	check := func(peer string, want string) {
		t.Helper()
		p := netip.MustParseAddr(peer)
		r, err := RouteTo(p)
		if err != nil {
			t.Fatal(err)
		}
		if r.NetDev != "left" || r.Local || !strings.HasSuffix(r.From.String(), "1") {
			t.Errorf("%s: route %+v", peer, r)
		}
		got := Path(ctx, r, p)
		if s := fmt.Sprintf("sent %d passed %d lost %d", got.Sent, got.Passed, got.Lost); s != want ||
			got.RoCE != Arrived || got.Problem != "" {
			t.Errorf("%s: %s, %+v, want %s", peer, s, got, want)
		}
	}
	check("192.0.2.2", "sent 9000 passed 9000 lost 0")
	check("fd09::2", "sent 9000 passed 9000 lost 0")
	run(there + "ip link set right mtu 1500") // packets that are longer than the peer takes are lost without a report
	check("192.0.2.2", "sent 9000 passed 1120 lost 2144")
	r, err := RouteTo(netip.MustParseAddr("192.0.2.1"))
	if err != nil || !r.Local || r.From.String() != "192.0.2.1" {
		t.Errorf("the route to oneself: %+v, %v", r, err)
	}
	if r, err := RouteTo(netip.MustParseAddr("203.0.113.1")); err == nil {
		t.Errorf("a route without one: %+v", r)
	}
	run("ip route add 203.0.113.0/24 via 192.0.2.2 mtu 1400")
	if r, err := RouteTo(netip.MustParseAddr("203.0.113.1")); err != nil || r.MTU != 1400 ||
		r.Gateway.String() != "192.0.2.2" {
		t.Errorf("a route with its own MTU: %+v, %v", r, err)
	}
	got := Path(ctx, Route{From: netip.MustParseAddr("192.0.2.1"), NetDev: "left", MTU: 1500},
		netip.MustParseAddr("192.0.2.77"))
	if got.Problem == "" || got.Passed != 0 {
		t.Errorf("a peer that does not exist: %+v", got)
	}
	if _, err := readPFC("left"); err == nil {
		t.Log("veth has PFC")
	}
	if _, err := readFilters(); err != nil {
		t.Errorf("filters: %v", err)
	}
}
