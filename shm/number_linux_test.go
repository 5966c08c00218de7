// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// numbered is a device with queue pairs that connect by number.
type numbered struct {
	t    *testing.T
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	qps  []*verbs.QP
	ends []verbs.Endpoint
}

func newNumbered(t *testing.T, queuePairs int) *numbered {
	t.Helper()
	n := &numbered{t: t}
	dev := open(t)
	var err error
	ok := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n.pd, err = dev.AllocPD()
	ok()
	n.cq, err = dev.CreateCQ(2*queuePairs, nil)
	ok()
	n.mr, err = n.pd.RegMR(make([]byte, 64), verbs.LocalWrite)
	ok()
	for range queuePairs {
		var qp *verbs.QP
		qp, err = n.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		ok()
		var e verbs.Endpoint
		e, err = qp.Endpoint(0)
		ok()
		n.qps, n.ends = append(n.qps, qp), append(n.ends, e)
	}
	return n
}

// connect takes each queue pair to RTS, with one of the peer.
func (n *numbered) connect(peer *numbered, opts verbs.ConnectOptions) {
	n.t.Helper()
	for i, qp := range n.qps {
		if err := qp.Connect(n.ends[i], peer.ends[i], &opts); err != nil {
			n.t.Fatal(err)
		}
	}
}

// start has each queue pair send, and receive.
func (n *numbered) start() {
	n.t.Helper()
	for _, qp := range n.qps {
		n.receive(qp)
		n.send(qp)
	}
}

func (n *numbered) receive(qp *verbs.QP) {
	n.t.Helper()
	if err := qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{n.mr.SGE(0, 64)}}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *numbered) send(qp *verbs.QP) {
	n.t.Helper()
	if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{n.mr.SGE(0, 8)}}); err != nil {
		n.t.Fatal(err)
	}
}

// finish waits until everything was sent and received.
func (n *numbered) finish() {
	n.t.Helper()
	for i, s := range n.poll(2 * len(n.qps)) {
		if s != verbs.StatusSuccess {
			n.t.Fatalf("completion %d: %v", i, s)
		}
	}
}

// poll returns the statuses of that many completions.
func (n *numbered) poll(count int) (statuses []verbs.Status) {
	n.t.Helper()
	wcs := make([]verbs.WC, 64)
	for len(statuses) < count {
		k := n.cq.Poll(wcs)
		for _, wc := range wcs[:k] {
			statuses = append(statuses, wc.Status)
		}
		if k == 0 {
			if n.t.Context().Err() != nil {
				n.t.Fatal(n.t.Context().Err())
			}
			time.Sleep(time.Millisecond)
		}
	}
	return statuses
}

// TestManyByNumber connects as many queue pairs by number as the process has descriptors for, up to 10,000: all on
// one side first, so that their requests wait on the other, and then have them send at once.
func TestManyByNumber(t *testing.T) {
	testrun.SkipUnlessLong(t, "it makes 20,000 queue pairs")
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	queuePairs := int(min(10000, (l.Cur-512)/2)) // of each side; both ends of a connection are this process's
	a, b := newNumbered(t, queuePairs), newNumbered(t, queuePairs)
	a.connect(b, pair.Patient)
	b.connect(a, pair.Patient)
	a.start()
	b.start()
	a.finish()
	b.finish()
	t.Logf("%d queue pairs of each side", queuePairs)
}
