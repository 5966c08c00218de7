// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// TestInjected: packets that faults have struck say so, and their meaning for later packets is as on the network: a
// lost packet has not arrived, a copy is no retransmission.
func TestInjected(t *testing.T) {
	const out, in = trace.Outbound, trace.Inbound
	r := newRecording(t)
	record := func(host byte, way trace.Direction, comment string, p ib.Packet) {
		r.direction, r.comment = way, comment
		r.from(host, p)
	}
	record('A', out, "injected: loss", send(1, 100))
	record('A', out, "", send(1, 100))
	record('B', in, "injected: delay", ack(1, positive))
	record('A', out, "", send(2, 100))
	record('A', out, "injected: duplicate", send(2, 100))
	record('B', in, "injected: partition", ack(2, positive))
	record('A', out, "", send(2, 100))
	record('B', in, "", ack(2, positive))
	record('B', in, "injected: corrupt", send(1, 100))
	record('B', in, "injected: rnr", send(1, 100))
	s, l := r.rows()
	for i, want := range []struct {
		marks Mark
		note  string
	}{
		{Injected | Lost, "injected: loss"}, {Retransmission, ""}, {Injected, "injected: delay"}, {0, ""},
		{Injected, "injected: duplicate"}, {Injected | Lost, "injected: partition"},
		{Retransmission, "without an answer"}, {0, ""}, {Injected | BadCRC, "injected: corrupt"},
		{Injected, "injected: rnr"},
	} {
		row := &l.Rows[i]
		noted := func(n string) bool { return strings.Contains(n, want.note) }
		if row.Marks != want.marks || !slices.ContainsFunc(append(row.Notes, ""), noted) {
			t.Errorf("row %d: %s %q, marks %v, want %v %q", i, row.Op, row.Notes, row.Marks.Names(),
				want.marks.Names(), want.note)
		}
	}
	want := "2 retransmissions, 2 packets lost, 1 wrong CRC, 6 injected faults"
	if got := s.Conversations[0].Tally.String(); got != want {
		t.Errorf("in all %s", got)
	}
}

// TestInjectedOnArrival: where both ends were recorded, a packet that is lost as it is received is lost once.
func TestInjectedOnArrival(t *testing.T) {
	r := newRecording(t)
	for _, comment := range []string{"injected: loss", "injected: delay", ""} {
		p := send(1, 100)
		r.direction = trace.Outbound
		r.from('A', p)
		r.direction, r.comment, r.again = trace.Inbound, comment, true
		r.from('A', p)
	}
	s, l := r.rows()
	if len(l.Rows) != 3 || l.Rows[0].Marks != Injected|Lost ||
		l.Rows[1].Marks != Injected|Retransmission || l.Rows[2].Marks != Retransmission {
		t.Errorf("%+v", l.Rows)
	}
	if got := s.Conversations[0].Tally.String(); got != "2 retransmissions, 1 packet lost, 2 injected faults" {
		t.Errorf("in all %s", got)
	}
}

// TestInjectedCopies: of a retransmission that comes twice, as a fault asks for, the copy is none.
func TestInjectedCopies(t *testing.T) {
	r := newRecording(t)
	r.from('A', send(1, 100))
	for range 2 {
		r.direction, r.comment = trace.Inbound, "injected: duplicate"
		r.from('A', send(1, 100))
	}
	s, l := r.rows()
	if len(l.Rows) != 3 || l.Rows[1].Marks != Injected|Retransmission || l.Rows[2].Marks != Injected {
		t.Errorf("%+v", l.Rows)
	}
	if got := s.Conversations[0].Tally.String(); got != "1 retransmission, 2 injected faults" {
		t.Errorf("in all %s", got)
	}
}

// TestDamagedIsNoGap: packets whose CRC is wrong are in the capture.
func TestDamagedIsNoGap(t *testing.T) {
	r := newRecording(t)
	for psn, comment := range []string{"", "injected: corrupt", "injected: corrupt", ""} {
		r.direction, r.comment = trace.Inbound, comment
		r.from('A', send(ib.PSN(psn), 100))
	}
	r.direction, r.comment = trace.Inbound, "injected: corrupt"
	r.from('A', send(4, 100))
	r.from('A', send(6, 100))
	s, l := r.rows()
	if got := s.Conversations[0].Tally.String(); got != "1 gap in the PSNs, 3 wrong CRCs, 3 injected faults" {
		t.Errorf("in all %s", got)
	}
	if last := l.Rows[len(l.Rows)-1]; !slices.Contains(last.Notes, "PSN 5 before it: not in the capture") {
		t.Errorf("%+v", last)
	}
}

// TestDelayedRun: packets that a fault has only delayed take one row, as others do, which says so.
func TestDelayedRun(t *testing.T) {
	r := newRecording(t)
	for psn := range 6 {
		r.direction, r.comment = trace.Outbound, "injected: delay"
		r.from('A', send(ib.PSN(psn), 100))
	}
	s := r.survey()
	l, err := s.Draw(Options{Conversations: s.Conversations})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Rows) != 1 || l.Rows[0].Packets != 6 || l.Rows[0].Marks != Injected ||
		!slices.Equal(l.Rows[0].Notes, []string{"injected: delay"}) {
		t.Errorf("%+v", l.Rows)
	}
}
