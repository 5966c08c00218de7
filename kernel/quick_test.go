// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestQuick(t *testing.T) {
	dev, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", dev.Query())
	p, err := dev.Port(1)
	t.Logf("%+v %v", p, err)
	g, err := dev.GIDs(1)
	t.Logf("%+v %v", g, err)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(64, nil)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]*verbs.QP
	var eps [2]verbs.Endpoint
	for i := range qps {
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = qps[i].Endpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range qps {
		if err := qps[i].Connect(eps[i], eps[1-i], nil); err != nil {
			t.Fatal(err)
		}
	}
	copy(mr.Bytes(), "hello")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := qps[0].PostSend(&verbs.SendWR{ID: 7, Op: verbs.Write, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, 5)}, Remote: mr.Remote().At(100)}); err != nil {
		t.Fatal(err)
	}
	var wc [4]verbs.WC
	n, err := cq.Wait(ctx, wc[:])
	t.Logf("%d %v %+v %q", n, err, wc[0], mr.Bytes()[100:105])
	t.Log(dev.Close())
}
