// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// end is one end of a connection.
type end struct {
	cq *verbs.CQ
	mr *verbs.MR
	qp *verbs.QP
}

// connect connects two devices, each with size bytes of memory and room for depth sends.
func connect(t testing.TB, a, b *verbs.Device, typ verbs.QPType, size, depth int) (ends [2]end) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var at [2]verbs.Endpoint
	for i, dev := range []*verbs.Device{a, b} {
		e := &ends[i]
		pd, err := dev.AllocPD()
		ok(err)
		e.cq, err = dev.CreateCQ(2*depth, nil)
		ok(err)
		e.mr, err = pd.RegMR(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		ok(err)
		e.qp, err = pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: depth, MaxRecvWR: 1})
		ok(err)
		at[i], err = e.qp.Endpoint(0)
		ok(err)
	}
	ok(ends[0].qp.Connect(at[0], at[1], nil))
	ok(ends[1].qp.Connect(at[1], at[0], nil))
	return ends
}
