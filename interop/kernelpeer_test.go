// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// kernelLink is a device of the kernel in the guest, and Ramjet's own on the host's end of the same link.
type kernelLink struct {
	name, kernel, ramjet string
	guest, host          string // addresses
	control              string // the agent's, on the other link, which stays as it is
	nic                  string // of the guest
	module               string // of the device, for rdma-link(8)
}

func kernelLinks() []kernelLink {
	return []kernelLink{
		{"rxe", "kernel:rxe0", "roce:" + hostIPv4, guestIPv4, hostIPv4, net.JoinHostPort(iwGuestIPv4, agentPort), "eth0", "rxe"},
		{"siw", "kernel:siw0", "iwarp:" + iwHostIPv4, iwGuestIPv4, iwHostIPv4, net.JoinHostPort(guestIPv4, agentPort), "eth1", "siw"},
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
				client, server := agentRequest{Do: "exercise", Device: l.kernel, IP: netip.MustParseAddr(l.host), Port: 7610}, agentRequest{Do: "serve", Device: l.ramjet, IP: netip.MustParseAddr(l.host), Port: 7610}
				from, to := guest, host
				if way == "ramjet→kernel" {
					client.Device, server.Device, client.IP, server.IP = l.ramjet, l.kernel, netip.MustParseAddr(l.guest), netip.MustParseAddr(l.guest)
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

// In mid-transfer a side is killed, or the guest's device is deleted: on the sides that are left every work
// request completes, the connection is told as ended, and closing the device returns.
func TestKernelFaults(t *testing.T) {
	for _, l := range kernelLinks()[:1] { // siw: not looked at yet
		for _, way := range []string{"kernel→ramjet", "ramjet→kernel"} {
			for _, fault := range []string{"killed/guest", "killed/host", "deleted"} {
				if fault == "killed/host" && way == "ramjet→kernel" {
					continue // who only receives is not told of a peer that dies without a word
				}
				t.Run(l.name+"/"+way+"/"+fault, func(t *testing.T) {
					guest, machine := dialAgent(t, l.control), dialAgent(t, l.control)
					host, process := hostAgent(t)
					from, to := guest, host
					send, receive := agentRequest{Do: "bulk", Device: l.kernel, IP: netip.MustParseAddr(l.host), Port: 7620}, agentRequest{Do: "receive", Device: l.ramjet, IP: netip.MustParseAddr(l.host), Port: 7620}
					if way == "ramjet→kernel" {
						from, to = host, guest
						send.Device, receive.Device, send.IP, receive.IP = l.ramjet, l.kernel, netip.MustParseAddr(l.guest), netip.MustParseAddr(l.guest)
					}
					to.call(receive)
					from.call(send)
					time.Sleep(300 * time.Millisecond) // in mid-transfer
					left := []*remoteAgent{guest, host}
					switch fault {
					case "killed/guest":
						guest.try(agentRequest{Do: "shell", Shell: "kill -9 $PPID"})
						left = left[1:]
					case "killed/host":
						process.Process.Kill()
						left = left[:1]
					case "deleted": // returns when nobody has the device open any more
						name := l.kernel[len("kernel:"):]
						machine.call(agentRequest{Do: "shell", Shell: "setsid rdma link delete " + name + " >/dev/null 2>&1 &"})
						defer machine.call(agentRequest{Do: "shell", Shell: "for i in $(seq 60); do rdma link add " + name + " type " + l.module + " netdev " + l.nic + " && exit; sleep 1; done; exit 1"})
					}
					for _, side := range left {
						r := side.call(agentRequest{Do: "ended"}).Bulk
						who := map[bool]string{true: "guest", false: "host"}[side == guest]
						t.Logf("%s: %+v", who, r)
						if r.Error != "" || r.Completed != r.Posted || r.Status == "" || !slices.ContainsFunc(r.Events, func(e string) bool { return e != "" }) {
							t.Errorf("%s: %+v", who, r)
						}
					}
				})
			}
		}
	}
}
