// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestCongestion has packets arrive as if routers had marked them: their sender hears of it by CNPs.
// Queue pairs whose packets are not to be marked never ask what was.
func TestCongestion(t *testing.T) {
	const notECT, ect0, ce = 0, 2, 3
	for _, c := range []struct {
		name         string
		sent, answer uint8 // traffic class of each side
		told         bool
	}{
		{"marked", ce, ect0, true},
		{"not marked", ect0, ect0, false},
		{"not capable", ce, notECT, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := open(t, nil)
			b, _ := open(t, nil)
			ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 4096, Depth: 1})
			x, y := ends[0], ends[1]
			setClass(t, x.QP, c.sent)
			setClass(t, y.QP, c.answer)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 50 {
				if err := x.QP.PostSend(&verbs.SendWR{Op: verbs.Write, Flags: verbs.Signaled, SGL: []verbs.SGE{x.MR.SGE(0, 4096)}, Remote: y.MR.Remote()}); err != nil {
					t.Fatal(err)
				}
				var wcs [1]verbs.WC
				if _, err := x.CQ.Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.Success {
					t.Fatal(err, wcs[0].Status)
				}
			}
			for c.told && (loopback.Counter(t, b, "sent_cnp") == 0 || loopback.Counter(t, a, "rcvd_cnp") == 0) {
				if x.CQ.Poll(make([]verbs.WC, 1)); ctx.Err() != nil {
					t.Fatal("nobody is told")
				}
			}
			if marked := loopback.Counter(t, b, "rcvd_ecn_marked"); !c.told && (marked != 0 || loopback.Counter(t, b, "sent_cnp") != 0) {
				t.Errorf("%d marked packets, %d CNPs", marked, loopback.Counter(t, b, "sent_cnp"))
			}
		})
	}
}

// setClass changes the traffic class of a connected queue pair's packets.
func setClass(t *testing.T, qp *verbs.QP, class uint8) {
	t.Helper()
	attr, _ := qp.Query()
	attr.AH.TrafficClass = class
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPMask
	}{{verbs.SQD, 0}, {verbs.SQD, verbs.MaskAH}, {verbs.RTS, 0}} {
		attr.State = step.state
		if err := qp.Modify(attr, verbs.MaskState|step.mask); err != nil {
			t.Fatal(err)
		}
	}
}
