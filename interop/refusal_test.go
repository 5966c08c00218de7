// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Ports of this file: one without a listener, and one for connections with private data.
const (
	nobodysPort = "7999"
	dataPort    = "7490"
	dataPortNum = 7490
	iwMaxData   = 251
)

// TestRefused connects to ports without a listener: both sides refuse at once, with the
// reason.
func TestRefused(t *testing.T) {
	for _, f := range both {
		t.Run(f.toGuest()+"/"+f.name, func(t *testing.T) {
			m := f.open(t)
			address := net.JoinHostPort(f.guest, nobodysPort)
			_, err := cm.Dial(m.ctx, m.dev, address)
			var refused *cm.RejectError
			if !errors.As(err, &refused) || refused.Reason != cm.ReasonInvalidService ||
				!strings.Contains(err.Error(), address) {
				t.Errorf("dialing: %v", err)
			}
			if f.iwarp() {
				return
			}
			id := m.resolve(cm.UDP, 7999)
			m.ok(id.Connect(&cm.ConnParam{}))
			if e := m.event(cm.Unreachable); e.Err == nil || !strings.Contains(e.Err.Error(), address) {
				t.Errorf("datagram service: %v", e.Err)
			}
			m.ok(id.Close())
		})
		t.Run(f.fromGuest()+"/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), f.open(t)
			other := m.listen(cm.TCP, 7998) // a device without listeners has no manager either
			if f.iwarp() {                  // which waits for TCP's answer
				r := g.run(programTimeout, "ucmatose", "-s", f.host, "-p", nobodysPort)
				if !strings.Contains(r.Output, "Connection refused") {
					t.Errorf("ucmatose: exit %d:\n%s", r.Exit, r.Output)
				}
				return
			}
			r := g.run(programTimeout, "rping", "-c", "-a", f.host, "-p", nobodysPort)
			if !strings.Contains(r.Output, "RDMA_CM_EVENT_REJECTED, error 8") { // invalid service ID
				t.Errorf("rping: exit %d:\n%s", r.Exit, r.Output)
			}
			r = g.run(programTimeout, "udaddy", "-s", f.host)
			if !strings.Contains(r.Output, "RDMA_CM_EVENT_UNREACHABLE, error: 1") { // no such service
				t.Errorf("udaddy: exit %d:\n%s", r.Exit, r.Output)
			}
			m.ok(other.Close())
		})
	}
}

// text is private data of n bytes: pyverbs cannot reject with zeros.
func text(n int) []byte { return bytes.Repeat([]byte("private data, "), n/14+1)[:n] }

// carries fails the test unless got is data, as long as the message's field at least, with
// zeros behind.
func carries(t testing.TB, got, data []byte) {
	t.Helper()
	if !bytes.HasPrefix(got, data) || len(bytes.Trim(got[len(data):], "\x00")) > 0 {
		t.Errorf("private data %x, want %x", got, data)
	}
}

// setup gives a connection a queue pair, and private data.
func (m *manager) setup(data []byte) cm.Option {
	cq, err := m.dev.CreateCQ(2, nil)
	must(m.t, cq, err)
	return cm.WithSetup(func(id *cm.ID, p *cm.ConnParam) error {
		p.PrivateData = data
		_, err := id.CreateQP(m.pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		return err
	})
}

// eventData returns the private data of the event that connect.py printed.
func eventData(t testing.TB, r jobResult, event string) []byte {
	t.Helper()
	wantProgram(t, "connect.py", r)
	for line := range strings.Lines(r.Output) {
		if data, ok := strings.CutPrefix(line, event+" "); ok {
			b, err := hex.DecodeString(strings.TrimSpace(data))
			return must(t, b, err)
		}
	}
	t.Fatalf("no event %s:\n%s", event, r.Output)
	return nil
}

// TestPrivateData accepts and rejects connections, with as much private data in every
// message as fits.
func TestPrivateData(t *testing.T) {
	for _, f := range both {
		ask, accept, reject := text(cm.MaxConnectData), text(cm.MaxAcceptData), text(cm.MaxRejectData)
		if f.iwarp() { // the kernel counts the length in a byte, with 4 of the frame's own
			ask, accept, reject = text(iwMaxData), text(iwMaxData), text(iwMaxData)
		}
		connectPy := func(role string, argv ...string) []string {
			address := f.guest
			if role == "connect" {
				address = f.host
			}
			line := []string{"python3", "/peer/connect.py", role, address, dataPort}
			if f.iwarp() {
				line = append(line, "--iwarp")
			}
			return append(line, argv...)
		}
		guest := net.JoinHostPort(f.guest, dataPort)

		t.Run(f.toGuest()+"/accept/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), f.open(t)
			server := g.spawnCM(dataPortNum, connectPy("listen", "accept", hex.EncodeToString(accept))...)
			conn, err := cm.Dial(m.ctx, m.dev, guest, m.setup(ask))
			must(t, conn, err)
			carries(t, conn.Param().PrivateData, accept)
			if f.iwarp() {
				select {
				case <-conn.Done():
				case <-m.ctx.Done():
					t.Error("the peer has ended the connection, and nobody says so")
				}
			}
			m.ok(conn.Close())
			r := server.wait(programTimeout)
			carries(t, eventData(t, r, "CONNECT_REQUEST"), ask)
			wantProgram(t, "connect.py", r, "ESTABLISHED", "DISCONNECTED")
		})
		t.Run(f.toGuest()+"/reject/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), f.open(t)
			server := g.spawnCM(dataPortNum, connectPy("listen", "reject", hex.EncodeToString(reject))...)
			_, err := cm.Dial(m.ctx, m.dev, guest, m.setup(ask))
			var rejected *cm.RejectError
			if !errors.As(err, &rejected) || rejected.Reason != cm.ReasonConsumer ||
				!strings.Contains(err.Error(), guest) {
				t.Fatalf("dialing: %v", err)
			}
			carries(t, rejected.PrivateData, reject)
			carries(t, eventData(t, server.wait(programTimeout), "CONNECT_REQUEST"), ask)
		})
		t.Run(f.fromGuest()+"/accept/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), f.open(t)
			l, err := cm.Listen(t.Context(), m.dev, ":"+dataPort, m.setup(accept))
			must(t, l, err)
			client := g.spawn(0, connectPy("connect", hex.EncodeToString(ask))...)
			conn, err := l.Accept(m.ctx)
			must(t, conn, err)
			carries(t, conn.Param().PrivateData, ask)
			if got := conn.PeerAddr().Addr(); got != netip.MustParseAddr(f.guest) {
				t.Errorf("the peer is %v", got)
			}
			select {
			case <-conn.Done():
			case <-m.ctx.Done():
				t.Error("the peer has ended the connection, and nobody says so")
			}
			r := client.wait(programTimeout)
			carries(t, eventData(t, r, f.answer()), accept)
			wantProgram(t, "connect.py", r, "DISCONNECTED")
			m.ok(conn.Close())
			m.ok(l.Close())
		})
		t.Run(f.fromGuest()+"/reject/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), f.open(t)
			l, err := cm.Listen(t.Context(), m.dev, ":"+dataPort)
			must(t, l, err)
			client := g.spawn(0, connectPy("connect", hex.EncodeToString(ask))...)
			request, err := l.Next(m.ctx)
			must(t, request, err)
			carries(t, request.Param().PrivateData, ask)
			m.ok(request.Reject(reject))
			carries(t, eventData(t, client.wait(programTimeout), "REJECTED"), reject)
			m.ok(l.Close())
		})
	}
}
