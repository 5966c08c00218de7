// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// twoSwitches is two adapters with a port at each of two switches, between which there is a cable or not.
func twoSwitches(t *testing.T, between string) *infiniband.Fabric {
	t.Helper()
	f, err := infiniband.NewFabric("two", `
Switch 4 "left"
[1] "a"[1]
[2] "b"[1]
`+between+`
Switch 4 "right"
[1] "a"[2]
[2] "b"[2]

Hca 2 "a"
Hca 2 "b"
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// waitPort waits for the state of a device's port.
func waitPort(t *testing.T, d *verbs.Device, port int, want verbs.PortState) verbs.PortAttr {
	t.Helper()
	var p verbs.PortAttr
	waitFor(t, fmt.Sprintf("port %d is %v", port, want), func() (done bool) {
		var err error
		if p, err = d.Port(port); err != nil {
			t.Fatal(err)
		}
		return p.State == want
	})
	return p
}

// pairAt connects an RC queue pair of each of two devices, from one's port to the other's.
func pairAt(t *testing.T, a *verbs.Device, from int, b *verbs.Device, to int) (x, y *rcEnd) {
	t.Helper()
	x, y = newRCEnd(t, a), newRCEnd(t, b)
	x.connect(from, y, to)
	y.connect(to, x, from)
	return x, y
}

// rcEnd is an RC queue pair with its objects.
type rcEnd struct {
	t  *testing.T
	d  *verbs.Device
	qp *verbs.QP
	cq *verbs.CQ
	mr *verbs.MR
}

func newRCEnd(t *testing.T, d *verbs.Device) *rcEnd {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	e := &rcEnd{t: t, d: d}
	if e.cq, err = d.CreateCQ(16, nil); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *rcEnd) connect(port int, o *rcEnd, to int) {
	e.t.Helper()
	far, err := o.d.Port(to)
	if err != nil {
		e.t.Fatal(err)
	}
	e.connectBy(verbs.AHAttr{DLID: far.LID, Port: port}, o)
}

// connectBy takes the queue pair to RTS, along a path to the other one's.
func (e *rcEnd) connectBy(path verbs.AHAttr, o *rcEnd) {
	e.t.Helper()
	for _, s := range []struct {
		a verbs.QPAttr
		m verbs.QPMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, Port: path.Port, Access: verbs.RemoteWrite | verbs.LocalWrite},
			verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess},
		{verbs.QPAttr{State: verbs.StateRTR, AH: path, PathMTU: verbs.MTU2048, DestQPN: o.qp.Num(), MinRNRTimer: 12,
			MaxDestRdAtomic: 1},
			verbs.MaskState | verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN |
				verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer},
		{verbs.QPAttr{State: verbs.StateRTS, Timeout: patient, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 1},
			verbs.MaskState | verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskSQPSN |
				verbs.MaskMaxRdAtomic},
	} {
		if err := e.qp.Modify(s.a, s.m); err != nil {
			e.t.Fatal(err)
		}
	}
}

// write writes to the other end's memory, and returns the status.
func (e *rcEnd) write(o *rcEnd) verbs.Status {
	e.t.Helper()
	if err := e.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{e.mr.SGE(0, 64)}, Remote: o.mr.Remote(),
		Flags: verbs.Signaled}); err != nil {
		e.t.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := e.cq.Wait(within(e.t), wc[:]); err != nil {
		e.t.Fatal(err)
	}
	return wc[0].Status
}

// Both ports of an adapter carry traffic, in one subnet, each by its own switch; when one switch is down, the
// other port goes on.
func TestTwoPorts(t *testing.T) {
	f := twoSwitches(t, `[3] "right"[3]`)
	softfabric.AwaitActive(t, f)
	a, b := device(t, f, "a"), device(t, f, "b")
	for from := 1; from <= 2; from++ {
		for to := 1; to <= 2; to++ {
			x, y := pairAt(t, a, from, b, to)
			if s := x.write(y); s != verbs.StatusSuccess {
				t.Errorf("from port %d to port %d: %v", from, to, s)
			}
		}
	}
	one, two := waitPort(t, a, 1, verbs.PortActive), waitPort(t, a, 2, verbs.PortActive)
	if one.LID == two.LID || one.SMLID != two.SMLID {
		t.Errorf("LIDs %d and %d, managers at %d and %d", one.LID, two.LID, one.SMLID, two.SMLID)
	}
	x, y := pairAt(t, a, 2, b, 2)
	if err := f.Power("left", false); err != nil {
		t.Fatal(err)
	}
	waitPort(t, a, 1, verbs.PortDown)
	if s := x.write(y); s != verbs.StatusSuccess {
		t.Errorf("the other switch is down, and port 2 does not go on: %v", s)
	}
	if err := f.Power("left", true); err != nil {
		t.Fatal(err)
	}
	softfabric.AwaitActive(t, f)
	x, y = pairAt(t, a, 1, b, 1)
	if s := x.write(y); s != verbs.StatusSuccess {
		t.Errorf("port 1 after the switch is back: %v", s)
	}
}

// Ports at two subnets: the manager of one subnet leaves the other alone, which would need a manager of its own.
func TestTwoSubnets(t *testing.T) {
	f := twoSwitches(t, "")
	a, b := device(t, f, "a"), device(t, f, "b")
	waitPort(t, a, 1, verbs.PortActive)
	waitPort(t, b, 1, verbs.PortActive)
	x, y := pairAt(t, a, 1, b, 1)
	if s := x.write(y); s != verbs.StatusSuccess {
		t.Errorf("by the managed subnet: %v", s)
	}
	time.Sleep(50 * time.Millisecond) // time for the manager to do something
	if p := waitPort(t, a, 2, verbs.PortInit); p.LID != 0 || p.SMLID != 0 {
		t.Errorf("the other port has LID %d and a manager at %d", p.LID, p.SMLID)
	}
}
