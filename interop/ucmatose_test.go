// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"strconv"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// matose is a run of ucmatose with any number of connections at once: the server sends on
// all of them, the client answers, and the server ends them. With migrate both move
// their ids to another channel before the end.
type matose struct {
	connections, size, count int
	migrate                  bool
	ib                       bool // in port space IB; otherwise TCP
}

const matosePort = 7472 // its own, 7471, is that of the control program, which matters to iWARP

func (c matose) argv(more ...string) []string {
	argv := append([]string{"ucmatose", "-p", strconv.Itoa(matosePort), "-c", strconv.Itoa(c.connections), "-S",
		strconv.Itoa(c.size), "-C", strconv.Itoa(c.count)}, more...)
	if c.migrate {
		argv = append(argv, "-m")
	}
	if c.ib {
		argv = append(argv, "-P", "ib")
	}
	return argv
}

func (c matose) portSpace() cm.PortSpace {
	if c.ib {
		return cm.IB
	}
	return cm.TCP
}

// serve is Ramjet as ucmatose's server; client starts the peer once it can connect.
func (c matose) serve(m *manager, client func()) {
	m.t.Helper()
	retries := uint8(5)
	if m.iwarp() {
		retries = 7 // MPA does not say, and TCP retries
	}
	listener := m.listen(c.portSpace(), matosePort)
	client()
	var ends []*endpoint
	for established := 0; established < c.connections; {
		e, err := m.ch.Get(m.ctx)
		must(m.t, e, err)
		switch e.Type {
		case cm.ConnectRequest:
			if e.Conn.ResponderResources != 1 || e.Conn.InitiatorDepth != 1 || e.Conn.RetryCount != retries {
				m.t.Errorf("ucmatose asks for %+v", e.Conn)
			}
			end := m.endpoint(e.ID, c.size, c.count)
			m.ok(e.ID.Accept(nil))
			ends = append(ends, end)
		case cm.Established:
			established++
		default:
			m.t.Fatalf("event %q: %v", e.Type, e.Err)
		}
	}
	for _, end := range ends {
		end.post(verbs.SendWR{Op: verbs.OpSend})
	}
	for _, end := range ends {
		end.sent()
		end.received(0)
	}
	if c.migrate {
		m.migrate(listener, ends)
	}
	for _, end := range ends {
		m.ok(end.id.Disconnect())
	}
	for range ends {
		m.event(cm.Disconnected)
	}
	for _, end := range ends {
		end.close()
	}
	m.ok(listener.Close())
}

// connect is Ramjet as ucmatose's client.
func (c matose) connect(m *manager) {
	m.t.Helper()
	var ends []*endpoint
	for range c.connections {
		end := m.endpoint(m.resolve(c.portSpace(), matosePort), c.size, c.count)
		ends = append(ends, end)
	}
	for _, end := range ends {
		m.ok(end.id.Connect(&cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5}))
	}
	for range ends {
		m.event(cm.Established)
	}
	for _, end := range ends {
		end.received(0)
		end.post(verbs.SendWR{Op: verbs.OpSend})
	}
	for _, end := range ends {
		end.sent()
	}
	if c.migrate {
		m.migrate(nil, ends)
	}
	for range ends {
		m.ok(m.event(cm.Disconnected).ID.Disconnect())
	}
	for _, end := range ends {
		end.close()
	}
}

// migrate moves everything to a new channel and closes the old one.
func (m *manager) migrate(listener *cm.ID, ends []*endpoint) {
	m.t.Helper()
	to := cm.NewEventChannel()
	if listener != nil {
		m.ok(listener.Migrate(to))
	}
	for _, end := range ends {
		m.ok(end.id.Migrate(to))
	}
	m.ok(m.ch.Close())
	m.ch = to
}

const matoseDone = "return status 0"

// matoses are the runs of TestUcmatose over each kind of device and family of addresses.
var matoses = map[string][]matose{
	"rxe/IPv4": {
		{connections: 1, size: 100, count: 10},
		{connections: 1, size: 100, count: 10, migrate: true},
		{connections: 10, size: 70_000, count: 3},
		{connections: 10, size: 100, count: 10, ib: true},
		{connections: 100, size: 100, count: 10},
		{connections: 100, size: 100, count: 10, migrate: true},
	},
	"siw/IPv4": {
		{connections: 1, size: 100, count: 10},
		{connections: 10, size: 70_000, count: 3},
		{connections: 30, size: 100, count: 10, migrate: true},
	},
	"siw/IPv6": {
		{connections: 10, size: 9000, count: 5},
	},
	"rxe/IPv6": {
		{connections: 1, size: 100, count: 10},
		{connections: 10, size: 9000, count: 5, migrate: true},
		{connections: 100, size: 100, count: 10},
	},
}

// TestUcmatose connects Ramjet with rdma-core's ucmatose, many connections at once, with
// either side as the server: connections are made, carry data both ways, move to another
// event channel, and end on both sides.
func TestUcmatose(t *testing.T) {
	for _, f := range both {
		for _, c := range matoses[f.peer+"/"+f.name] {
			name := f.name + "/" + strconv.Itoa(c.connections) + "x" + strconv.Itoa(c.size)
			if c.migrate {
				name += "/migrate"
			}
			if c.ib {
				name += "/IB"
			}
			t.Run(f.toGuest()+"/"+name, func(t *testing.T) {
				g, m := dialGuest(t, f.ipv6), f.open(t)
				server := g.spawnCM(matosePort, c.argv("-b", f.guest)...)
				c.connect(m)
				wantProgram(t, "server", server.wait(programTimeout), "disconnected", matoseDone)
			})
			t.Run(f.fromGuest()+"/"+name, func(t *testing.T) {
				g, m := dialGuest(t, f.ipv6), f.open(t)
				var client *job
				c.serve(m, func() { client = g.spawn(0, c.argv("-s", f.host)...) })
				wantProgram(t, "client", client.wait(programTimeout), matoseDone)
			})
		}
	}
}
