// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestStats loses packets and receives, and has the queue pairs say so: how often they went back, why, and
// how long the round trip is.
func TestStats(t *testing.T) {
	steady(t)
	const delay, size = 20 * time.Microsecond, 256 << 10
	for name, c := range map[string]struct {
		loss float64
		wr   verbs.SendWR
		want func(a, b verbs.QPStats) bool
	}{
		"nothing lost": {0, verbs.SendWR{Op: verbs.OpWrite}, func(a, b verbs.QPStats) bool {
			return a.Retransmitted+a.Timeouts+a.SequenceErrors+a.LostResponses+a.RNRs+b.Duplicates+b.OutOfSequence == 0
		}},
		"lost WRITEs": {0.05, verbs.SendWR{Op: verbs.OpWrite}, func(a, b verbs.QPStats) bool {
			return a.Retransmitted > 0 && a.SequenceErrors > 0 && b.OutOfSequence > 0
		}},
		"lost READs": {0.05, verbs.SendWR{Op: verbs.OpRead},
			func(a, b verbs.QPStats) bool { return a.Retransmitted > 0 && a.LostResponses > 0 }},
		"all lost for a while": {1, verbs.SendWR{Op: verbs.OpWrite},
			func(a, b verbs.QPStats) bool { return a.Retransmitted > 0 && a.Timeouts > 0 }},
		"no receive": {0, verbs.SendWR{Op: verbs.OpSend},
			func(a, b verbs.QPStats) bool { return a.Retransmitted > 0 && a.RNRs > 0 && b.SentRNRs == a.RNRs }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simnet.New(1, nil)
				t.Cleanup(n.Close)
				n.Default = simnet.Path{Delay: delay, Rate: 10e9}
				a, b := newEnd(t, n, size), newEnd(t, n, size)
				ok(t, a.qp.Connect(a.ep, b.ep, nil))
				ok(t, b.qp.Connect(b.ep, a.ep, nil))
				lose := func(loss float64) {
					n.SetPath(a.host, b.host, func(p *simnet.Path) { p.Loss = loss })
					n.SetPath(b.host, a.host, func(p *simnet.Path) { p.Loss = loss })
				}
				lose(c.loss)
				if c.loss == 1 || c.wr.Op == verbs.OpSend {
					time.AfterFunc(20*time.Millisecond, func() {
						lose(0)
						ok(t, b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, size)}}))
					})
				}
				c.wr.Flags, c.wr.SGL, c.wr.Remote = verbs.Signaled, []verbs.SGE{a.mr.SGE(0, size)}, b.mr.Remote()
				ok(t, a.qp.PostSend(&c.wr))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var wc [1]verbs.WC
				if _, err := a.cq.Wait(ctx, wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess {
					t.Fatal(err, wc[0].Status)
				}
				time.Sleep(time.Millisecond) // the peer may have counted a moment later
				sa, err := a.qp.Stats()
				ok(t, err)
				sb, err := b.qp.Stats()
				ok(t, err)
				if !c.want(sa, sb) {
					t.Errorf("one side has %+v\nand the other %+v", sa, sb)
				}
				if sa.RTT < 2*delay || sa.RTT > 100*delay || sa.Window == 0 || sa.SendQueue+sa.InFlight != 0 {
					t.Errorf("%+v", sa)
				}
				if sa.SentMessages != 1 || sa.SentBytes+sa.RecvBytes != size ||
					sb.RecvMessages != 1 && c.wr.Op != verbs.OpRead {
					t.Errorf("one side has %+v\nand the other %+v", sa, sb)
				}
			})
		})
	}
}

// end is one end of a connection.
type end struct {
	host *simnet.Host
	cq   *verbs.CQ
	mr   *verbs.MR
	qp   *verbs.QP
	ep   verbs.Endpoint
}

func newEnd(t *testing.T, n *simnet.Net, size int) end {
	t.Helper()
	h := n.NewHost()
	return newEndAt(t, h, h.OpenRoCE(), size)
}

// newEndOn is newEnd at an adapter of a fabric.
func newEndOn(t *testing.T, f *simnet.Fabric, h *simnet.Host, adapter string, size int) end {
	t.Helper()
	dev, err := h.OpenInfiniBand(f, adapter)
	ok(t, err)
	return newEndAt(t, h, dev, size)
}

func newEndAt(t *testing.T, h *simnet.Host, dev *verbs.Device, size int) (e end) {
	t.Helper()
	e.host = h
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	ok(t, err)
	e.cq, err = dev.CreateCQ(16, nil)
	ok(t, err)
	e.mr, err = pd.RegMR(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	ok(t, err)
	e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq})
	ok(t, err)
	e.ep, err = e.qp.Endpoint(0)
	ok(t, err)
	return e
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
