// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// pages puts all pages of a listing together.
func pages[I any](list func(page []I, at int) (n, next int)) (all []I) {
	page := make([]I, 2)
	for at := driver.FirstPage; at > 0; {
		var n int
		n, at = list(page, at)
		all = append(all, page[:n]...)
	}
	return all
}

// Observers see the objects that there are, and how many.
func TestObserved(t *testing.T) {
	name, _ := named(t)
	dev := open(t, name)
	o := driver.DeviceOf(dev).(driver.Observer)
	numbers := func() (n [5]uint64) {
		list, err := dev.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if i := slices.Index([]string{"pds", "mrs", "cqs", "qps", "srqs"}, m.Name); i >= 0 {
				n[i] = m.Value
			}
		}
		if listed := [3]int{len(pages(o.ObserveMRs)), len(pages(o.ObserveCQs)),
			len(pages(o.ObserveQPs))}; listed != [3]int{int(n[1]), int(n[2]), int(n[3])} {
			t.Errorf("%v regions, completion queues and queue pairs are listed, and counted are %v", listed, n)
		}
		return n
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := numbers(); n != [5]uint64{} {
		t.Errorf("%v at first", n)
	}
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16, nil)
	check(err)
	var mrs []*verbs.MR
	for range 5 {
		mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteRead)
		check(err)
		mrs = append(mrs, mr)
	}
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 16, MaxSGE: 1})
	check(err)
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	check(err)
	if n := numbers(); n != [5]uint64{1, 5, 1, 1, 1} {
		t.Errorf("%v", n)
	}
	domain := pages(o.ObserveMRs)[0].PD
	if !slices.ContainsFunc(pages(o.ObserveMRs), func(m driver.MRInfo) bool {
		return m.Key == mrs[3].RKey() && m.Addr == mrs[3].Addr() && m.Len == 4096 &&
			m.Access == verbs.LocalWrite|verbs.RemoteRead && m.PD == domain && domain != 0
	}) {
		t.Errorf("%+v", pages(o.ObserveMRs))
	}
	queue, queues := pages(o.ObserveCQs)[0].Num, pages(o.ObserveSRQs)
	if q := pages(o.ObserveQPs)[0]; q.QPN != qp.Num() || q.Type != verbs.RC || q.PD != domain || q.SendCQ != queue ||
		q.RecvCQ != queue || queue == 0 || q.SRQ != queues[0].Num || q.SRQ == 0 {
		t.Errorf("%+v", q)
	}
	check(mrs[1].Close())
	check(qp.Close())
	check(qp.Close())
	if n := numbers(); n != [5]uint64{1, 4, 1, 0, 1} {
		t.Errorf("%v after two were closed", n)
	}
	if slices.ContainsFunc(pages(o.ObserveMRs), func(m driver.MRInfo) bool { return m.Addr == mrs[1].Addr() }) {
		t.Error("a region that was closed is listed")
	}
}
