// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// heard collects the events of a manager.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) event(e infiniband.ManagerEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, e.String())
}

// await calls do again and again until the manager reports an event.
func (h *heard) await(t *testing.T, what string, do func()) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		do()
		h.mu.Lock()
		all := strings.Join(h.lines, "\n")
		h.mu.Unlock()
		if strings.Contains(all, what) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("nobody has told %q:\n%s", what, all)
		}
	}
}

// sender is a queue pair for datagrams of a partition.
type sender struct {
	t  *testing.T
	d  *verbs.Device
	qp *verbs.QP
	cq *verbs.CQ
	pd *verbs.PD
}

func newSender(t *testing.T, d *verbs.Device, pkeyIndex uint16, qkey verbs.QKey) *sender {
	t.Helper()
	s := &sender{t: t, d: d}
	var err error
	if s.pd, err = d.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = d.CreateCQ(64, nil); err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		a verbs.QPAttr
		m verbs.QPMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, Port: 1, PKeyIndex: pkeyIndex, QKey: qkey},
			verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskQKey},
		{verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskState},
		{verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState | verbs.MaskSQPSN},
	} {
		if err := s.qp.Modify(step.a, step.m); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// to sends a datagram to another one's queue pair.
func (s *sender) to(o *sender, qkey verbs.QKey) {
	s.t.Helper()
	p, err := o.d.Port(1)
	if err != nil {
		s.t.Fatal(err)
	}
	ah, err := s.pd.CreateAH(verbs.AHAttr{DLID: p.LID, Port: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("x"), AH: ah, RemoteQPN: o.qp.Num(),
		RemoteQKey: qkey, Flags: verbs.Signaled}); err != nil {
		s.t.Fatal(err)
	}
	var wc [8]verbs.WC
	if _, err := s.cq.Wait(within(s.t), wc[:]); err != nil {
		s.t.Fatal(err)
	}
	if err := ah.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// Ports that receive packets with wrong keys, or find errors of links, send traps to the manager.
func TestTraps(t *testing.T) {
	t.Parallel()
	var h heard
	f := managed(t, "star:4", infiniband.ManagerOptions{Partitions: "Default : ALL=full; red = 0x10 : host-1=full, host-2=full;", Event: h.event})
	const qkey = 0x11
	one, two, three := device(t, f, "host-1"), device(t, f, "host-2"), device(t, f, "host-3")
	a, red, b, c := newSender(t, one, 0, qkey), newSender(t, one, 1, qkey), newSender(t, two, 0, qkey),
		newSender(t, three, 0, qkey)
	lid := func(d *verbs.Device) uint16 {
		p, err := d.Port(1)
		if err != nil {
			t.Fatal(err)
		}
		return p.LID
	}
	way := func(s, d *sender) string {
		return fmt.Sprintf("from QP %v of LID %d to QP %v of LID %d", s.qp.Num(), lid(s.d), d.qp.Num(), lid(d.d))
	}
	h.await(t, `"host-2"`, func() { a.to(b, 0x12) })
	h.await(t, "a packet with the wrong Q_Key 0x12, "+way(a, b), func() {})
	h.await(t, "a packet with P_Key 0x8010 of another partition, "+way(red, b), func() { red.to(b, qkey) })
	h.await(t, "a switch has refused a packet with P_Key 0x8010, "+way(red, c), func() { red.to(c, qkey) })
	if err := f.SetErrorRate(infiniband.End{Node: "host-3", Port: 1}, 0.9); err != nil {
		t.Fatal(err)
	}
	h.await(t, "local link integrity errors have reached their threshold", func() { a.to(c, qkey) })
}
