// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// message is a message of the connection manager.
func cmMessage(t *testing.T, a mad.Attribute, m interface{ Append([]byte) []byte }) ib.Packet {
	t.Helper()
	b := m.Append((&mad.Header{Class: mad.ClassCM, Method: 3, Attribute: a}).Append(nil))
	return ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QP1}, DETH: ib.DETH{SrcQP: ib.QP1},
		Payload: append(b, make([]byte, mad.Size-len(b))...)}
}

// connect records a connection's set-up: A may retry 3 times, and has an RNR retry count of 2; B any number of times.
func (r *recording) connect(t *testing.T) {
	r.from('A',
		cmMessage(t, mad.AttrREQ, &mad.REQ{LocalCommID: 1, LocalQPN: 0xa, RetryCount: 3, RNRRetryCount: 7, PathMTU: 3}))
	r.from('B', cmMessage(t, mad.AttrREP, &mad.REP{LocalCommID: 2, RemoteCommID: 1, LocalQPN: 0xb, RNRRetryCount: 2}))
	r.from('A', cmMessage(t, mad.AttrRTU, &mad.RTU{LocalCommID: 1, RemoteCommID: 2}))
}

func TestEndings(t *testing.T) {
	rnr := ib.RNRNAK(ib.RNRTimerFor(time.Millisecond))
	for _, c := range []struct {
		name   string
		record func(r *recording)
		ending string
		notes  []string // of retransmissions
	}{
		{"open", func(r *recording) { r.from('A', send(1, 4)); r.from('B', ack(1, positive)) },
			"still open where the capture ends", nil},
		{"closed", func(r *recording) {
			r.connect(t)
			r.from('A', send(1, 4))
			r.from('B', ack(1, positive))
			r.from('B', cmMessage(t, mad.AttrDREQ, &mad.DREQ{LocalCommID: 2, RemoteCommID: 1, RemoteQPN: 0xa}))
			r.from('A', cmMessage(t, mad.AttrDREP, &mad.DREP{LocalCommID: 1, RemoteCommID: 2}))
		}, "closed by 192.0.2.2 at 0.005000 (DREQ)", nil},
		{"nobody answers", func(r *recording) {
			r.connect(t)
			r.from('A', send(1, 4))
			r.from('A', send(2, 4))
			for range 3 {
				r.from('A', send(1, 4))
				r.from('A', send(2, 4))
			}
			r.from('A', cmMessage(t, mad.AttrDREQ, &mad.DREQ{LocalCommID: 1, RemoteCommID: 2, RemoteQPN: 0xb}))
		}, "no answer to PSN 1–2 of 192.0.2.1 after retry 3 of 3, then closed by 192.0.2.1 at 0.011000 (DREQ), which got no answer",
			[]string{"retransmission without an answer for 1.00 ms: retry 1 of 3",
				"retransmission without an answer for 1.00 ms",
				"retransmission without an answer for 1.00 ms: retry 2 of 3",
				"retransmission without an answer for 1.00 ms",
				"retransmission without an answer for 1.00 ms: retry 3 of 3",
				"retransmission without an answer for 1.00 ms"}},
		{"progress", func(r *recording) {
			r.from('A', send(1, 4))
			r.from('A', send(1, 4))
			r.from('B', ack(1, positive))
			r.from('A', send(2, 4))
			r.from('A', send(2, 4))
		}, "no answer to PSN 2 of 192.0.2.1 after retry 1, then the capture ends",
			[]string{"retransmission without an answer for 1.00 ms: retry 1",
				"retransmission without an answer for 1.00 ms: retry 1"}},
		{"RNR", func(r *recording) {
			r.connect(t)
			r.from('A', send(1, 4))
			for range 2 {
				r.from('B', ack(1, rnr))
				r.from('A', send(1, 4))
			}
			r.from('B', ack(1, rnr))
		}, "RNR NAK from 192.0.2.2 at 0.008000 after RNR retry 2 of 2",
			[]string{"retransmission after the RNR NAK's time: RNR retry 1 of 2",
				"retransmission after the RNR NAK's time: RNR retry 2 of 2"}},
		{"RNR of B", func(r *recording) {
			r.connect(t)
			r.from('B', send(1, 4))
			r.from('A', ack(1, rnr))
			r.from('B', send(1, 4))
			r.from('A', ack(1, positive))
		}, "still open where the capture ends",
			[]string{"retransmission after the RNR NAK's time: RNR retry 1 of any number"}},
		{"NAK", func(r *recording) {
			r.from('A', send(1, 4))
			r.from('B', ack(1, ib.NAK(ib.NAKRemoteAccessError)))
		}, "NAK, remote access error, PSN 1, from 192.0.2.2 at 0.001000", nil},
		{"refused", func(r *recording) {
			r.from('A', cmMessage(t, mad.AttrREQ, &mad.REQ{LocalCommID: 1, LocalQPN: 0xa}))
			r.from('B', cmMessage(t, mad.AttrREJ, &mad.REJ{RemoteCommID: 1, Reason: 28}))
		}, "CM REJ, rejected: consumer reject from 192.0.2.2 at 0.001000", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecording(t)
			c.record(r)
			s, l := r.rows()
			if got := s.Conversations[0].Ending(); got != c.ending {
				t.Errorf("%q, want %q", got, c.ending)
			}
			var notes []string
			for i := range l.Rows {
				for _, n := range l.Rows[i].Notes {
					if strings.HasPrefix(n, "retransmission") {
						notes = append(notes, n)
					}
				}
			}
			if !slices.Equal(notes, c.notes) {
				t.Errorf("%q, want %q", notes, c.notes)
			}
		})
	}
}

// How Linux's programs end their conversations; datagrams do not.
func TestEndingsOfCaptures(t *testing.T) {
	for _, c := range []struct {
		file   string
		number int
		ending string
	}{
		{captures[0], 13, "no answer to PSN 7940878 of 10.9.0.2, then closed by 10.9.0.1 at 18.949545 (DREQ)"},
		{captures[0], 3, ""},
		{captures[2], 9, "closed by 10.9.0.1 at 9.389814 (TCP FIN)"},
		{"testdata/loss.pcapng", 1, "closed by 192.0.2.3 at 0.009111 (DREQ)"},
	} {
		s, err := Take(File(c.file))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Conversations[c.number-1].Ending(); !strings.HasPrefix(got, c.ending) ||
			c.ending == "" && got != "" {
			t.Errorf("%s %d: %q, want %q", c.file, c.number, got, c.ending)
		}
	}
}
