// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// libfabric connects devices of interfaces that are not the loopback one, and a server without an
// address looks up localhost.
func TestLibfabric(t *testing.T) {
	dir := need(t, "fi_pingpong")
	addr := outside(t)
	for _, args := range []string{"-p verbs -e msg", "-p verbs -e dgram", "-p verbs;ofi_rxm -e rdm",
		"-p verbs;ofi_rxm -e rdm -c"} {
		t.Run(args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			port := freePort(t)
			args := strings.Fields("fi_pingpong -I 10 -S 64 " + args)
			server := start(t, ctx, dir, addr, append(args, "-B", port)...)
			out, err := pair{}.connect(t, ctx, dir, server, "roce:"+addr, append(args, "-P", port, addr))
			if err != nil || !strings.Contains(out, "=10") {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := <-server.done; err != nil {
				t.Errorf("server: %v\n%s", err, server.out.String())
			}
		})
	}
}

// outside returns an IPv4 address of the host that is not the loopback interface's.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	t.Skip("no interface but the loopback one has an IPv4 address")
	return ""
}
