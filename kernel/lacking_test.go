// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Calls that a device does not have return ErrNotSupported, with the reason. Nothing is taken and ignored: what some
// devices have works, or is refused so.
func TestNotSupported(t *testing.T) {
	name, _ := named(t)
	dev := open(t, name)
	iwarp := dev.Query().Transport == verbs.TransportIWARP
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := dev.AllocPD()
	must(err)
	cq, err := dev.CreateCQ(16, nil)
	must(err)
	buf := make([]byte, 8192)
	mr, err := pd.RegMR(buf, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
	must(err)
	qp := func() *verbs.QP {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(err)
		return q
	}
	from, to := qp(), qp()
	if iwarp {
		byManager(t, from, to, &verbs.ConnectOptions{})
	} else {
		here, err := from.Endpoint(0)
		must(err)
		there, err := to.Endpoint(0)
		must(err)
		must(from.Connect(here, there, nil))
		must(to.Connect(there, here, nil))
	}
	post := func(op verbs.SendOp) error {
		return from.PostSend(&verbs.SendWR{Op: op, SGL: []verbs.SGE{mr.SGE(0, 8)}, Remote: mr.Remote()})
	}
	register := func(opt verbs.RegOption) error { _, err := pd.RegMR(buf, verbs.LocalWrite, opt); return err }
	const some, none, all = "", "no device", "every device"
	for _, c := range []struct {
		what, has string
		do        func() error
	}{
		{"pinned memory", all, func() error { return register(verbs.Pinned()) }},
		{"weak regions", none, func() error { return register(verbs.Weak()) }},
		{"pipelined pinning", none, func() error { return register(verbs.Pipelined(4096)) }},
		{"deferred pinning", none, func() error { return register(verbs.Deferred()) }},
		{"on-demand paging", some, func() error { return register(verbs.OnDemandPaging()) }},
		{"prefetching", some, func() error { return mr.Prefetch(0, 4096, false) }},
		{"a region's new rights", some, func() error {
			return mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
		}},
		{"windows of type 1", some, func() error { _, err := pd.AllocMW(verbs.MWType1); return err }},
		{"windows of type 2", some, func() error { _, err := pd.AllocMW(verbs.MWType2); return err }},
		{"shared receive queues", some,
			func() error { _, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1}); return err }},
		{"resizing", some, func() error { return cq.Resize(32) }},
		{"XRC", some, func() error { _, err := dev.OpenXRCD(); return err }},
		{"UC", some,
			func() error { _, err := pd.CreateQP(verbs.QPInit{Type: verbs.UC, SendCQ: cq, RecvCQ: cq}); return err }},
		{"SEND with immediate data", some, func() error { return post(verbs.OpSendImm) }},
		{"WRITE with immediate data", some, func() error { return post(verbs.OpWriteImm) }},
		{"compare-and-swap", some, func() error { return post(verbs.OpCompareSwap) }},
		{"fetch-and-add", some, func() error { return post(verbs.OpFetchAdd) }},
		{"atomic WRITE", none, func() error { return post(verbs.OpAtomicWrite) }},
		{"FLUSH", none, func() error { return post(verbs.OpFlush) }},
	} {
		err := c.do()
		var why *verbs.OpError
		switch {
		case err == nil && c.has != none:
		case c.has == all || !errors.Is(err, verbs.ErrNotSupported):
			t.Errorf("%s: %v", c.what, err)
		case !errors.As(err, &why) || why.Detail == "":
			t.Errorf("%s: %v says no reason", c.what, err)
		}
	}
	if iwarp {
		q := qp()
		here, err := q.Endpoint(0)
		must(err)
		if err := q.Connect(here, here, nil); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("connecting by number: %v", err)
		}
	}
}
