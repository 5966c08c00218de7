// SPDX-License-Identifier: Apache-2.0

// Package pair connects devices for tests, and answers their connections.
package pair

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// End is one end of a connection.
type End struct {
	CQ *verbs.CQ
	MR *verbs.MR
	QP *verbs.QP
}

// Options are the parameters of a connection.
type Options struct {
	Type  verbs.QPType
	Size  int // bytes of memory at each end
	Depth int // room for sends
	Recvs int // room for receives; 0: for one
	Row   int // of the GID tables
}

// Patient are options with which half a minute passes until a peer is given up, since beside other programs a process
// may get no processor for seconds. Lost packets are sent again in milliseconds all the same.
var Patient = verbs.ConnectOptions{Timeout: 20}

// Connect connects two devices.
func Connect(t testing.TB, a, b *verbs.Device, o Options) (ends [2]End) {
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
		e.CQ, err = dev.CreateCQ(2*o.Depth+o.Recvs, nil)
		ok(err)
		e.MR, err = pd.RegMR(make([]byte, o.Size), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		ok(err)
		e.QP, err = pd.CreateQP(verbs.QPInit{Type: o.Type, SendCQ: e.CQ, RecvCQ: e.CQ,
			Cap: verbs.QPCap{MaxSendWR: o.Depth, MaxRecvWR: max(o.Recvs, 1)}})
		ok(err)
		at[i], err = e.QP.Endpoint(o.Row)
		ok(err)
	}
	opts := Patient
	opts.SGIDIndex = o.Row
	for i := range ends {
		ok(ends[i].QP.Connect(at[i], at[1-i], &opts))
	}
	return ends
}
