// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// device is Ramjet's side of a test.
type device struct {
	t    testing.TB
	dev  *verbs.Device
	pd   *verbs.PD
	sgid int // the row of its GID table that has the link's address
}

// openRamjet opens Ramjet's RoCEv2 device on the link, until the test ends.
func openRamjet(t testing.TB, l link) side {
	t.Helper()
	address := hostIPv4
	if l.ipv6 {
		address = hostIPv6
	}
	dev, err := roce.Open(address, nil)
	must(t, dev, err)
	return newDevice(t, dev, address)
}

// newDevice is the side of a device, which is closed when the test ends.
func newDevice(t testing.TB, dev *verbs.Device, address string) *device {
	t.Helper()
	t.Cleanup(func() { dev.Close() })
	want := netip.MustParseAddr(address)
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gids {
		if g.GID.Addr() == want {
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			return &device{t, dev, pd, g.Index}
		}
	}
	t.Fatalf("no GID for %v in %v", want, gids)
	return nil
}

func (d *device) name() string { return "ramjet" }

// counter is one of Ramjet's.
func (d *device) counter(name string) uint64 { return loopback.Counter(d.t, d.dev, name) }

// must returns v, and fails the test where there is an error.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// deviceRegion is a region of a device's side.
type deviceRegion struct{ mr *verbs.MR }

func (d *device) region(size int, access verbs.Access) region {
	d.t.Helper()
	mr, err := d.pd.RegMR(make([]byte, size), access)
	return &deviceRegion{must(d.t, mr, err)}
}

func (r *deviceRegion) remote() verbs.Remote     { return r.mr.Remote() }
func (r *deviceRegion) sge(off, n int) verbs.SGE { return r.mr.SGE(off, n) }

func (r *deviceRegion) fill(seed byte, off, n int) { r.set(off, pattern(seed, n)) }

func (r *deviceRegion) differs(seed byte, off, n int) int {
	return firstDifference(r.bytes(off, n), seed)
}

func (r *deviceRegion) bytes(off, n int) (out []byte) {
	r.mr.Do(func(b []byte) { out = append(out, b[off:off+n]...) })
	return out
}

func (r *deviceRegion) set(off int, b []byte) {
	r.mr.Do(func(mem []byte) { copy(mem[off:off+len(b)], b) })
}

// deviceWindow is a memory window of a device's side.
type deviceWindow struct{ mw *verbs.MW }

func (d *device) window(typ verbs.MWType) window {
	d.t.Helper()
	mw, err := d.pd.AllocMW(typ)
	return &deviceWindow{must(d.t, mw, err)}
}

// deviceSRQ is a shared receive queue of a device's side.
type deviceSRQ struct {
	d   *device
	srq *verbs.SRQ
}

func (d *device) sharedQueue() recvQueue {
	d.t.Helper()
	srq, err := d.pd.CreateSRQ(verbs.SRQInit{MaxWR: 128, MaxSGE: 16})
	return &deviceSRQ{d, must(d.t, srq, err)}
}

func (s *deviceSRQ) recv(wrs ...verbs.RecvWR) {
	s.d.t.Helper()
	n, err := s.srq.PostRecvList(wrs)
	must(s.d.t, n, err)
}

// deviceQueue is a queue pair of a device's side.
type deviceQueue struct {
	d     *device
	init  queueInit
	cq    *verbs.CQ
	qp    *verbs.QP
	local verbs.Endpoint
}

func (d *device) queue(init queueInit) queue {
	d.t.Helper()
	cq, err := d.dev.CreateCQ(512, nil)
	must(d.t, cq, err)
	spec := verbs.QPInit{Type: init.typ, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 16, MaxRecvSGE: 16}}
	if init.srq != nil {
		spec.SRQ = init.srq.(*deviceSRQ).srq
	}
	qp, err := d.pd.CreateQP(spec)
	must(d.t, qp, err)
	local, err := qp.Endpoint(d.sgid)
	must(d.t, local, err)
	return &deviceQueue{d, init, cq, qp, local}
}

func (q *deviceQueue) endpoint() verbs.Endpoint { return q.local }

func (q *deviceQueue) connect(remote verbs.Endpoint, opt verbs.ConnectOptions) {
	q.d.t.Helper()
	var err error
	if q.init.typ == verbs.UD {
		err = q.qp.StartUD(q.init.qkey)
	} else {
		opt.SGIDIndex, opt.Access = q.d.sgid, q.init.access|verbs.LocalWrite
		err = q.qp.Connect(q.local, remote, &opt)
	}
	if err != nil {
		q.d.t.Fatal(err)
	}
}

func (q *deviceQueue) recv(wrs ...verbs.RecvWR) {
	q.d.t.Helper()
	n, err := q.qp.PostRecvList(wrs)
	must(q.d.t, n, err)
}

func (q *deviceQueue) send(works ...work) {
	q.d.t.Helper()
	wrs := make([]verbs.SendWR, 0, len(works))
	for _, w := range works {
		if q.init.typ == verbs.UD {
			ah, err := q.d.pd.CreateAH(verbs.AHAttr{DGID: w.to, SGIDIndex: q.d.sgid})
			w.AH = must(q.d.t, ah, err)
		}
		wrs = append(wrs, w.SendWR)
	}
	n, err := q.qp.PostSendList(wrs)
	must(q.d.t, n, err)
}

func (q *deviceQueue) bind(id uint64, w window, r region, off, n int, access verbs.Access) verbs.Key {
	q.d.t.Helper()
	mw, mr := w.(*deviceWindow).mw, r.(*deviceRegion).mr
	info := verbs.MWBindInfo{MW: mw, MR: mr, Addr: mr.Addr() + uint64(off), Length: uint64(n), Access: access}
	var err error
	if mw.Type() == verbs.MWType1 {
		err = q.qp.BindMW(id, verbs.Signaled, info)
	} else {
		info.RKey = mw.NextRKey()
		err = q.qp.PostSend(&verbs.SendWR{ID: id, Op: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &info})
	}
	if err != nil {
		q.d.t.Fatal(err)
	}
	want(q.d.t, q.wait(1)[0], id, verbs.WCBindMW)
	return mw.RKey()
}

func (q *deviceQueue) wait(n int) []verbs.WC {
	q.d.t.Helper()
	ctx, cancel := context.WithTimeout(q.d.t.Context(), waitTimeout)
	defer cancel()
	wcs := make([]verbs.WC, n)
	for got := 0; got < n; {
		some, err := q.cq.Wait(ctx, wcs[got:])
		if err != nil {
			q.d.t.Fatalf("%d completions of %d: %v", got, n, err)
		}
		got += some
	}
	return wcs
}

func (q *deviceQueue) state() verbs.QPState { return q.qp.State() }
