// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestCongestion has packets arrive as if routers had marked them: their sender hears of it by CNPs. Queue pairs whose
// packets are not to be marked never ask which packets were.
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
				if err := x.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
					SGL: []verbs.SGE{x.MR.SGE(0, 4096)}, Remote: y.MR.Remote()}); err != nil {
					t.Fatal(err)
				}
				var wcs [1]verbs.WC
				if _, err := x.CQ.Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.StatusSuccess {
					t.Fatal(err, wcs[0].Status)
				}
			}
			for c.told && (loopback.Counter(t, b, "sent_cnp") == 0 || loopback.Counter(t, a, "rcvd_cnp") == 0) {
				if x.CQ.Poll(make([]verbs.WC, 1)); ctx.Err() != nil {
					t.Fatal("nobody is told")
				}
			}
			if marked := loopback.Counter(t, b, "rcvd_ecn_marked"); !c.told &&
				(marked != 0 || loopback.Counter(t, b, "sent_cnp") != 0) {
				t.Errorf("%d marked packets, %d CNPs", marked, loopback.Counter(t, b, "sent_cnp"))
			}
		})
	}
}

// setClass changes the traffic class of a connected queue pair's packets.
func setClass(t *testing.T, qp *verbs.QP, class uint8) {
	t.Helper()
	attr := qp.Query()
	attr.AH.TrafficClass = class
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPMask
	}{{verbs.StateSQD, 0}, {verbs.StateSQD, verbs.MaskAH}, {verbs.StateRTS, 0}} {
		attr.State = step.state
		if err := qp.Modify(attr, verbs.MaskState|step.mask); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCongestionChoice chooses a congestion control by the device's name and by the queue pair. Packets of DCQCN permit
// marks, and marked packets slow the sender down.
func TestCongestionChoice(t *testing.T) {
	const ce = 3
	withControl := func(addr string) (*verbs.Device, error) {
		return roce.Open(addr+"?cc=dcqcn&rpg_max_rate=1000&rpg_ai_rate=1&rpg_time_reset=100000", nil)
	}
	a, _ := loopback.Open(t, withControl)
	b, _ := loopback.Open(t, withControl)
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 4096, Depth: 1})
	x, y := ends[0], ends[1]
	if s, err := x.QP.Stats(); err != nil || s.Congestion != "dcqcn" || s.Rate != 1e9 || s.Alpha != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	setClass(t, x.QP, ce)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s, _ := x.QP.Stats(); s.RecvCNPs == 0; s, _ = x.QP.Stats() {
		if err := x.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL: []verbs.SGE{x.MR.SGE(0, 4096)}, Remote: y.MR.Remote()}); err != nil {
			t.Fatal(err)
		}
		var wcs [1]verbs.WC
		if _, err := x.CQ.Wait(ctx, wcs[:]); err != nil || wcs[0].Status != verbs.StatusSuccess {
			t.Fatal(err, wcs[0].Status)
		}
	}
	if s, _ := x.QP.Stats(); s.Rate == 0 || s.Rate >= 1e9 { // its counts and its rate are of one time
		t.Errorf("a notification leaves the rate at %d", s.Rate)
	}
	// what is counted is shown a little later
	for s, _ := y.QP.Stats(); s.Marked == 0 || s.SentCNPs == 0; s, _ = y.QP.Stats() {
		if y.CQ.Poll(make([]verbs.WC, 1)); ctx.Err() != nil {
			t.Fatalf("the receiver counts %+v", s.QPCounts)
		}
	}
}

// TestCongestionRefused holds that the error names a control that cannot be chosen.
func TestCongestionRefused(t *testing.T) {
	for name, want := range map[string]string{
		"127.0.0.1?cc=bbr":               "there are window, dcqcn, swift",
		"127.0.0.1?cc=swift&rpg_ai_rate": "has no parameter",
		"127.0.0.1?rpg_ai_rate=1":        "cc, which chooses",
	} {
		if _, err := roce.Open(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	a, _ := open(t, nil)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := a.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, init := range []verbs.QPInit{{Type: verbs.RC, Congestion: "bbr"}, {Type: verbs.UD, Congestion: "swift"}} {
		init.SendCQ, init.RecvCQ, init.Cap.MaxSendWR, init.Cap.MaxRecvWR = cq, cq, 1, 1
		if _, err := pd.CreateQP(init); err == nil {
			t.Errorf("a queue pair of %v with congestion control %s", init.Type, init.Congestion)
		}
	}
}
