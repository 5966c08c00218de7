// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// open opens a device of a loopback address of its own.
func open(t testing.TB) (*verbs.Device, netip.Addr) {
	t.Helper()
	return loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
}

// handLink connects two queue pairs without a connection manager.
type handLink struct {
	qp          *verbs.QP
	local, peer netip.AddrPort
}

func (l *handLink) LocalAddr() netip.AddrPort { return l.local }
func (l *handLink) PeerAddr() netip.AddrPort  { return l.peer }
func (l *handLink) Close() error              { return l.qp.Close() }

// A peer in this process may get no processor for seconds on a busy machine: a queue pair that is patient bears that.
const (
	patient = 18 // an attempt takes 1.07 s at least, and there are eight
	hasty   = 14 // 67 ms
)

// byHand returns two connected Conns of two devices, and does not close them.
func byHand(t testing.TB, da, db *verbs.Device, oa, ob Options) (a, b *Conn) {
	t.Helper()
	return connected(t, da, db, oa, ob, patient)
}

// connected is byHand with the timeout of a's queue pair.
func connected(t testing.TB, da, db *verbs.Device, oa, ob Options, timeout uint8) (a, b *Conn) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mk := func(dev *verbs.Device, o Options) (*endpoint, verbs.Endpoint) {
		e, err := newEndpoint(dev, o, func(pd *verbs.PD, init verbs.QPInit) (*verbs.QP,
			error) {
			return pd.CreateQP(init)
		})
		must(err)
		end, err := e.qp.Endpoint(0)
		must(err)
		return e, end
	}
	for _, o := range []*Options{&oa, &ob} {
		if o.Linger == 0 {
			o.Linger = time.Minute // nor may it in the time that Close waits by default
		}
	}
	ea, enda := mk(da, oa)
	eb, endb := mk(db, ob)
	must(ea.qp.Connect(enda, endb, &verbs.ConnectOptions{Timeout: timeout}))
	must(eb.qp.Connect(endb, enda, &verbs.ConnectOptions{Timeout: patient}))
	must(ea.postReceives())
	must(eb.postReceives())
	addr := func(e verbs.Endpoint) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(e.GID).Unmap(), uint16(e.QPN))
	}
	a, err := newConn(ea, &handLink{ea.qp, addr(enda), addr(endb)}, eb.connData())
	must(err)
	b, err = newConn(eb, &handLink{eb.qp, addr(endb), addr(enda)}, ea.connData())
	must(err)
	return a, b
}

// testPair returns two connected Conns of two new devices.
func testPair(t testing.TB, o Options) (a, b *Conn) {
	da, _ := open(t)
	db, _ := open(t)
	return pairOf(t, da, db, o)
}

// hastyPair is testPair for a peer that vanishes: a gives it up after two seconds.
func hastyPair(t testing.TB, o Options) (a, b *Conn) {
	da, _ := open(t)
	db, _ := open(t)
	a, b = connected(t, da, db, o, o, hasty)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// pairOf returns two connected Conns, which are closed with the test.
func pairOf(t testing.TB, da, db *verbs.Device, o Options) (a, b *Conn) {
	a, b = byHand(t, da, db, o, o)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
