// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// TestUnsent sends into an interface that is slow.
func TestUnsent(t *testing.T) {
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	loopback.SetUp(t, "link add slow type veth peer name far", "address add 198.51.100.1/24 dev slow",
		"link set slow up", "link set far up", "neighbor add 198.51.100.2 lladdr 02:00:00:00:00:02 dev slow")
	slow := func(on bool) {
		t.Helper()
		args := "qdisc del dev slow root"
		if on {
			args = "qdisc add dev slow root tbf rate 8kbit burst 3000 limit 1m" // a second for each datagram
		}
		if out, err := exec.Command("tc", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("tc %s: %v: %s", args, err, out)
		}
	}
	s := listen(t, netip.MustParseAddr("198.51.100.1"), Options{})
	to := netip.MustParseAddrPort("198.51.100.2:4791")
	train := s.NewTrain()
	send := func(send func(*Train) error) {
		t.Helper()
		slow(true)
		for range 20 {
			train.Reset(to)
			train.Begin(1000)
			train.Add(make([]byte, 1000))
			if err := send(train); err != nil {
				t.Fatal(err)
			}
		}
	}
	leaves := func(unsent func() int) {
		t.Helper()
		if unsent() < 1000 {
			t.Errorf("%d bytes wait, of 20,000 just sent", unsent())
		}
		slow(false) // drops them
		for until := time.Now().Add(patience); unsent() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d bytes still wait", unsent())
			}
		}
	}
	if n := s.Unsent(); n != 0 {
		t.Errorf("%d bytes of a new socket wait", n)
	}
	send(s.Send)
	leaves(s.Unsent)
	c, err := s.Connect(to, 64, 0)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	send(c.Send)
	leaves(c.Unsent)
}
