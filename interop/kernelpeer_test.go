// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// kernelLink is a device of the kernel in the guest, and Ramjet's own on the host's end of the same link.
type kernelLink struct {
	name, kernel, ramjet string
	guest, host          string // addresses
	control              string // the agent's address, on the other link, which stays as it is
	nic                  string // of the guest
	module               string // of the device, for rdma-link(8)
}

func kernelLinks() []kernelLink {
	return []kernelLink{
		{"rxe", "kernel:rxe0", "roce:" + hostIPv4, guestIPv4, hostIPv4, net.JoinHostPort(iwGuestIPv4, agentPort),
			"eth0", "rxe"},
		{"siw", "kernel:siw0", "iwarp:" + iwHostIPv4, iwGuestIPv4, iwHostIPv4, net.JoinHostPort(guestIPv4, agentPort),
			"eth1", "siw"},
	}
}

// Connections, datagram services, package rnet and net/http between Ramjet's device on the host and package kernel
// in the guest, both ways.
func TestKernelExercise(t *testing.T) {
	for _, l := range kernelLinks() {
		for _, way := range []string{"kernel→ramjet", "ramjet→kernel"} {
			t.Run(l.name+"/"+way, func(t *testing.T) {
				guest := dialAgent(t, l.control)
				host, _ := hostAgent(t)
				client, server := agentRequest{Do: "exercise", Device: l.kernel, IP: netip.MustParseAddr(l.host),
					Port: 7610}, agentRequest{Do: "serve", Device: l.ramjet, IP: netip.MustParseAddr(l.host),
					Port: 7610}
				from, to := guest, host
				if way == "ramjet→kernel" {
					client.Device, server.Device, client.IP, server.IP = l.ramjet, l.kernel,
						netip.MustParseAddr(l.guest), netip.MustParseAddr(l.guest)
					from, to = host, guest
				}
				to.call(server)
				answer := from.call(client)
				if least := map[string]int{"rxe": 7, "siw": 4}[l.name]; len(answer.Results) < least {
					t.Errorf("%d results, want %d: %v", len(answer.Results), least, answer.Results)
				}
				for name, wrong := range answer.Results {
					if wrong != "" {
						t.Errorf("%s: %s", name, wrong)
					}
				}
			})
		}
	}
}

// In mid-transfer a side is killed: on the side that is left every work request completes, the connection is
// reported as ended, and closing the device returns.
func TestKernelFaults(t *testing.T) {
	l := kernelLinks()[0] // siw: not looked at yet
	t.Run("kernel→ramjet/guest", func(t *testing.T) {
		b := l.bulk(t, true)
		b.guest.try(agentRequest{Do: "shell", Shell: "kill -9 $PPID"})
		b.ended(t, b.host, "host")
	})
	t.Run("kernel→ramjet/host", func(t *testing.T) {
		b := l.bulk(t, true)
		b.process.Process.Kill()
		b.ended(t, b.guest, "guest")
	})
	// a side that only receives does not notice a peer that dies without a message
	t.Run("ramjet→kernel/guest", func(t *testing.T) {
		b := l.bulk(t, false)
		b.guest.try(agentRequest{Do: "shell", Shell: "kill -9 $PPID"})
		b.ended(t, b.host, "host")
	})
}

// In mid-transfer the guest's device is deleted, which both sides notice. The kernel's other users of the device
// would keep it from going: so this test has a guest of its own, from run.sh.
func TestKernelDeleted(t *testing.T) {
	if os.Getenv("INTEROP_ALONE") == "" {
		t.Skip("takes the guest's device away: run.sh gives it a guest of its own (INTEROP_ALONE=1)")
	}
	l := kernelLinks()[0]
	name := l.kernel[len("kernel:"):]
	for _, fromGuest := range []bool{true, false} {
		t.Run(map[bool]string{true: "kernel→ramjet", false: "ramjet→kernel"}[fromGuest], func(t *testing.T) {
			machine := dialAgent(t, l.control)
			machine.call(agentRequest{Do: "shell",
				Shell: "for i in $(seq 60); do rdma link show " + name + "/1 && exit; rdma link add " + name +
					" type " + l.module + " netdev " + l.nic + "; sleep 1; done; exit 1"})
			b := l.bulk(t, fromGuest)
			// It returns when no program has the device open any more.
			machine.call(agentRequest{Do: "shell", Shell: "setsid rdma link delete " + name + " >/dev/null 2>&1 &"})
			b.ended(t, b.guest, "guest")
			b.ended(t, b.host, "host")
		})
	}
}

// stream is a transfer that goes on until something ends it.
type stream struct {
	guest, host *remoteAgent
	process     *exec.Cmd // of the host's side
}

// bulk begins a transfer, and returns in the middle of it.
func (l *kernelLink) bulk(t *testing.T, fromGuest bool) *stream {
	t.Helper()
	host, process := hostAgent(t)
	b := &stream{dialAgent(t, l.control), host, process}
	from, to := b.guest, b.host
	send, receive := agentRequest{Do: "bulk", Device: l.kernel, IP: netip.MustParseAddr(l.host), Port: 7620},
		agentRequest{Do: "receive", Device: l.ramjet, IP: netip.MustParseAddr(l.host), Port: 7620}
	if !fromGuest {
		from, to = to, from
		send.Device, receive.Device, send.IP, receive.IP = l.ramjet, l.kernel, netip.MustParseAddr(l.guest),
			netip.MustParseAddr(l.guest)
	}
	to.call(receive)
	from.call(send)
	time.Sleep(300 * time.Millisecond)
	return b
}

// ended waits for the end of the transfer at a side, and checks its report.
func (b *stream) ended(t *testing.T, side *remoteAgent, who string) {
	t.Helper()
	r := side.call(agentRequest{Do: "ended"}).Bulk
	t.Logf("%s: %+v", who, r)
	if r.Error != "" || r.Completed != r.Posted || r.Status == "" ||
		!slices.ContainsFunc(r.Events, func(e string) bool { return e != "" }) {
		t.Errorf("%s: %+v", who, r)
	}
}
