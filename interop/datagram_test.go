// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of udaddy and mckey.
const (
	udaddyPort    = 7174
	datagramSize  = 100
	datagramCount = 10
)

// reply answers a datagram's sender, whose queue pair its immediate names.
func (e *endpoint) reply(first verbs.WC) {
	e.m.t.Helper()
	var grh []byte
	e.mr.Do(func(b []byte) { grh = append(grh, b[:grhSize]...) })
	ah, err := e.m.pd.AHFromWC(1, &first, grh)
	must(e.m.t, ah, err)
	if first.Imm != uint32(first.SrcQPN) {
		e.m.t.Fatalf("the datagram is from queue pair %#x and says %#x", first.SrcQPN, first.Imm)
	}
	e.datagrams(verbs.SendWR{AH: ah, RemoteQPN: verbs.QPN(first.Imm), RemoteQKey: cm.UDPQKey})
}

// datagrams posts the endpoint's messages as rdma-core's examples do, with the sender's queue
// pair in the immediate.
func (e *endpoint) datagrams(wr verbs.SendWR) {
	e.m.t.Helper()
	wr.Op, wr.Imm = verbs.OpSendImm, uint32(e.qp.Num())
	e.post(wr)
}

// TestUdaddy connects Ramjet with rdma-core's udaddy: the client asks the server's port for
// the number of a queue pair, once for each of its own, and sends datagrams there; the
// server answers the sender.
func TestUdaddy(t *testing.T) {
	for _, f := range families {
		for _, connections := range []int{1, 20} {
			n := strconv.Itoa(connections)
			t.Run("ramjet→rxe/"+f.name+"/"+n, func(t *testing.T) {
				g, m := dialGuest(t, f.ipv6), openManager(t, f.ipv6)
				server := g.spawnCM(udaddyPort, "udaddy", "-b", f.guest, "-c", n)
				ends := map[*cm.ID]*endpoint{}
				for range connections {
					id := m.resolve(cm.UDP, udaddyPort)
					ends[id] = m.endpoint(id, datagramSize, datagramCount)
				}
				for id := range ends {
					m.ok(id.Connect(&cm.ConnParam{}))
				}
				to := map[*cm.ID]cm.UDParam{}
				for range ends {
					e := m.event(cm.Established)
					to[e.ID] = e.UD
				}
				for id, end := range ends {
					ah, err := m.pd.CreateAH(to[id].AH)
					must(t, ah, err)
					end.datagrams(verbs.SendWR{AH: ah, RemoteQPN: to[id].QPN, RemoteQKey: to[id].QKey})
				}
				for _, end := range ends {
					end.sent()
					end.received(grhSize)
				}
				wantProgram(t, "server", server.wait(programTimeout), "data transfers complete", "return status 0")
				for _, end := range ends {
					end.close()
				}
			})
			t.Run("rxe→ramjet/"+f.name+"/"+n, func(t *testing.T) {
				g, m := dialGuest(t, f.ipv6), openManager(t, f.ipv6)
				listener := m.listen(cm.UDP, udaddyPort)
				client := g.spawn(0, "udaddy", "-s", f.host, "-c", n)
				var ends []*endpoint
				for range connections {
					e := m.event(cm.ConnectRequest)
					ends = append(ends, m.endpoint(e.ID, datagramSize, datagramCount))
					m.ok(e.ID.Accept(nil))
				}
				for _, end := range ends {
					first := end.received(grhSize)
					end.reply(first)
				}
				wantProgram(t, "client", client.wait(programTimeout), "data transfers complete", "return status 0")
				for _, end := range ends {
					end.sent()
					end.close()
				}
				m.ok(listener.Close())
			})
		}
	}
}

// TestMckey sends to a group that rdma-core's mckey has joined, and receives datagrams of mckey
// to a group that Ramjet has joined. The kernel has no groups of IPv6 over RoCEv2: it
// refuses to join them with ENOTSUPP.
func TestMckey(t *testing.T) {
	const theirs, ours = "239.1.2.3", "239.1.2.4"
	g, m := dialGuest(t, false), openManager(t, false)
	join := func(group string) (*endpoint, cm.UDParam) {
		id := m.id(cm.UDP)
		m.ok(id.Bind(netip.AddrPortFrom(netip.MustParseAddr(m.host), 0)))
		end := m.endpoint(id, datagramSize, datagramCount)
		m.ok(id.JoinMulticast(netip.MustParseAddr(group)))
		return end, m.event(cm.MulticastJoin).UD
	}
	receiver, _ := join(ours)
	// mckey ends without waiting for its sends, and rxe then drops the rest: ten times
	// as many as are to arrive.
	sends := g.spawn(0, "mckey", "-b", guestIPv4, "-m", ours, "-s", "-c", "10")
	receives := g.spawn(0, "mckey", "-b", guestIPv4, "-m", theirs)
	g.waitJoined(theirs)

	sender, to := join(theirs)
	ah, err := m.pd.CreateAH(to.AH)
	must(t, ah, err)
	// The guest's interface is a member before the program's queue pair is.
	for first := true; first || !receives.ended(); first = false {
		sender.datagrams(verbs.SendWR{AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey})
		sender.sent()
	}
	receiver.received(grhSize)
	for who, job := range map[string]*job{"sender": sends, "receiver": receives} {
		wantProgram(t, who, job.wait(programTimeout), "data transfers complete", "return status 0")
	}
	m.ok(receiver.id.LeaveMulticast(netip.MustParseAddr(ours)))
	m.ok(sender.id.LeaveMulticast(netip.MustParseAddr(theirs)))
	receiver.close()
	sender.close()
}

// waitJoined waits until the guest is a member of an IPv4 group on some interface.
func (g *guest) waitJoined(group string) {
	g.t.Helper()
	for end := time.Now().Add(commandTimeout); time.Now().Before(end); {
		if r := g.run(commandTimeout, "ip", "-4", "maddress"); strings.Contains(r.Output, group) {
			return
		}
	}
	g.t.Fatalf("the guest does not join %s", group)
}
