// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

// FuzzMAD hands a device the bytes that anybody may send to QP1. It reaches one agent as it is, one that may have it,
// or none.
func FuzzMAD(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{0}, uint8(0))
	var h memhub.Hub
	dev := New("test", "test", 1, h.NewPort())
	defer dev.Close()
	open := func(spec umad.Spec) *agent {
		a, err := dev.OpenMAD(1, ib.QP1, spec)
		if err != nil {
			f.Fatal(err)
		}
		return a.(*agent)
	}
	agents := []*agent{
		open(umad.Spec{Class: wire.ClassCM, Methods: []wire.Method{wire.MethodSend}}),
		open(umad.Spec{Class: wire.ClassPerf, Version: 1, Methods: []wire.Method{wire.MethodGet, wire.MethodSet}}),
		open(umad.Spec{Class: wire.ClassPerf, Version: 1}),
	}
	for _, h := range []wire.Header{
		{BaseVersion: 1, Class: wire.ClassCM, ClassVersion: 2, Method: wire.MethodSend},
		{BaseVersion: 1, Class: wire.ClassPerf, ClassVersion: 1, Method: wire.MethodGet},
		{BaseVersion: 1, Class: wire.ClassPerf, ClassVersion: 1, Method: wire.MethodGetResp},
	} {
		f.Add(h.Append(nil), uint8(0))
		f.Add(h.Append(nil), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, whose uint8) {
		b = append(b, make([]byte, umad.Len)...)[:umad.Len]
		var head wire.Header
		head.Decode(b)
		if int(whose) < len(agents) { // an answer with the right number
			head.TID = uint64(agents[whose].id)<<32 | head.TID&0xffffffff
			head.Append(b[:0])
		}
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1},
			DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}, Payload: b}
		dev.Lane.Mu.Lock()
		r := dev.receiveMAD(p, &ibta.Arrival{From: ibta.PathKey{Port: 1}})
		dev.Lane.Mu.Unlock()
		taken := 0
		for i, a := range agents {
			var got [umad.Len]byte
			n, _, err := a.take(got[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				continue
			}
			taken++
			mine := head.TID>>32 == uint64(a.id)
			if !bytes.Equal(got[:], b) || a.spec.Class != head.Class || head.Method.Answers() && !mine {
				t.Errorf("agent %d has % x", i, got[:wire.HeaderLen])
			}
		}
		if want := r == ibta.Taken; taken != map[bool]int{true: 1}[want] {
			t.Errorf("%d agents have it, and it was %v", taken, r)
		}
	})
}

// TestTooManyAgents holds that a device has a bound for its agents, and room again when one closes.
func TestTooManyAgents(t *testing.T) {
	var h memhub.Hub
	dev := New("test", "test", 1, h.NewPort())
	defer dev.Close()
	spec := umad.Spec{Class: wire.ClassPerf, Version: 1}
	var last driver.MADAgent
	for range maxAgents {
		a, err := dev.OpenMAD(1, ib.QP1, spec)
		if err != nil {
			t.Fatal(err)
		}
		last = a
	}
	if _, err := dev.OpenMAD(1, ib.QP1, spec); err == nil {
		t.Fatal("there is no bound")
	}
	last.Close()
	if _, err := dev.OpenMAD(1, ib.QP1, spec); err != nil {
		t.Error(err)
	}
}

// A P_Key that the port does not have is refused by the value that would have been sent.
func TestForeignPKey(t *testing.T) {
	var n subnet
	s := n.newNode(t)
	s.port.change(1, func(i *softdev.PortInfo) { i.PKeyTable = []verbs.PKey{0x8001} })
	a, err := s.soft.OpenMAD(1, ib.QP1, umad.Spec{Class: wire.ClassPerf, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, c := range []struct {
		pkey verbs.PKey
		want string
	}{{0x8123, "0x8123"}, {0, "0xffff"}} {
		if err := a.Send(umad.Path{AH: verbs.AHAttr{DLID: s.lid(1), Port: 1}, PKey: c.pkey},
			make([]byte, wire.Size)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
