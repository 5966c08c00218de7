// SPDX-License-Identifier: Apache-2.0

package madagent

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

const tid = 0x1234_0000_0007

// request returns a request for a table, recorded at time 1.
func asked(t testing.TB, retries int) (*Agent, *Datagram) {
	t.Helper()
	a := &Agent{RMPP: true}
	h := sa.NewHeader(sa.MethodGetTable, sa.AttrNodeRecord, tid, 0)
	d := &Datagram{}
	h.Append(d.MAD[:0])
	if err := a.Request(1, d, 100, retries); err != nil {
		t.Fatal(err)
	}
	return a, d
}

// segment returns a segment of the response; size is that of its data if it is the last.
func segment(n uint32, last bool, size int) []byte {
	h := sa.NewHeader(sa.MethodGetTableResp, sa.AttrNodeRecord, tid, 0)
	h.RMPP = sa.RMPP{Version: 1, Type: sa.RMPPData, Flags: sa.RMPPActive, Segment: n}
	if n == 1 {
		h.RMPP.Flags |= sa.RMPPFirst
	}
	if last {
		h.RMPP.Flags |= sa.RMPPLast
		h.RMPP.Length = uint32(size) + sa.SubHeaderLen
	}
	b := h.Append(nil)
	return append(b, bytes.Repeat([]byte{byte(n)}, umad.Len-len(b))...)
}

// acks returns the segments that the next datagrams acknowledge.
func acks(t *testing.T, a *Agent) (all []uint32) {
	t.Helper()
	var d Datagram
	for a.NextDatagram(&d) {
		var h sa.Header
		h.Decode(d.MAD[:])
		if h.Method != sa.MethodGetTable || h.TID != tid || h.RMPP.Type != sa.RMPPAck ||
			h.RMPP.Flags != sa.RMPPActive || h.RMPP.Length < h.RMPP.Segment {
			t.Fatalf("no acknowledgement: %+v", h)
		}
		all = append(all, h.RMPP.Segment)
	}
	return all
}

// A request without a response is repeated, and then given up (section 13.4.6.2).
func TestTimeout(t *testing.T) {
	a, d := asked(t, 1)
	var got Datagram
	var e Event
	if a.HandleTimeout(100); a.NextDatagram(&got) || a.Deadline() != 101 {
		t.Fatalf("it is repeated before its time: deadline %d", a.Deadline())
	}
	if a.HandleTimeout(101); !a.NextDatagram(&got) || got != *d || a.NextEvent(&e) {
		t.Fatal("it is not repeated")
	}
	if a.HandleTimeout(201); a.NextDatagram(&got) || !a.NextEvent(&e) || !e.TimedOut || !bytes.Equal(e.Data, d.MAD[:]) {
		t.Fatalf("it is not given up: %+v", e)
	}
	if a.Deadline() != 0 {
		t.Error("something is due")
	}
	if a.Handle(202, &umad.Path{}, segment(1, true, 10)); a.NextEvent(&e) || len(acks(t, a)) > 0 {
		t.Error("a late response is not dropped")
	}
}

// Segments are put together; segments out of order are requested again (section 13.6.3.2).
func TestSegments(t *testing.T) {
	a, _ := asked(t, 3)
	from := &umad.Path{AH: verbs.AHAttr{DLID: 9}, QPN: 1}
	var e Event
	total := uint32(1 + window + 2)
	for n := uint32(1); n < total; n++ {
		a.Handle(clock.Time(n), from, segment(n, false, 0))
		if n == 1 {
			if got := acks(t, a); len(got) != 1 || got[0] != 1 {
				t.Fatalf("acknowledged %v, not the first one, behind which the window opens", got)
			}
		}
		if n == 5 {
			a.Handle(clock.Time(n), from, segment(n+2, false, 0))
			if got := acks(t, a); len(got) != 1 || got[0] != 5 {
				t.Fatalf("after a gap: acknowledged %v, not 5", got)
			}
		}
	}
	if got := acks(t, a); len(got) != 1 || got[0] != 1+window || a.NextEvent(&e) {
		t.Fatalf("acknowledged %v, not the window's end", got)
	}
	a.Handle(100, from, segment(total, true, 30))
	if got := acks(t, a); len(got) != 1 || got[0] != total {
		t.Fatalf("acknowledged %v, not the last one", got)
	}
	if !a.NextEvent(&e) || e.TimedOut || e.Path != *from {
		t.Fatal("no response")
	}
	if want := sa.HeaderLen + int(total-1)*sa.DataLen + 30; len(e.Data) != want {
		t.Fatalf("%d bytes, not %d", len(e.Data), want)
	}
	for i, b := range e.Data[sa.HeaderLen:] {
		if want := byte(1 + i/sa.DataLen); b != want {
			t.Fatalf("byte %d is of segment %d, not %d", i, b, want)
		}
	}
	if a.Deadline() != 0 {
		t.Error("it still waits")
	}
	// The last acknowledgement is lost: the sender repeats the segment.
	a.Handle(200, from, segment(total, true, 30))
	if got := acks(t, a); len(got) != 1 || got[0] != total || a.NextEvent(&e) {
		t.Fatalf("acknowledged %v, not the last one again", got)
	}
}

// A response that is stopped, or whose segments no longer come, is a timeout, as without a response.
func TestStopped(t *testing.T) {
	for _, stop := range []bool{true, false} {
		a, d := asked(t, 3)
		var e Event
		a.Handle(2, &umad.Path{}, segment(1, false, 0))
		at := a.Deadline()
		if stop {
			b := segment(2, false, 0)
			b[mad.HeaderLen+1] = uint8(sa.RMPPAbort)
			a.Handle(3, &umad.Path{}, b)
			at = 3
		}
		if a.HandleTimeout(at); !a.NextEvent(&e) || !e.TimedOut || !bytes.Equal(e.Data, d.MAD[:]) {
			t.Errorf("stopped %v: %+v", stop, e)
		}
	}
}

// Datagrams that are no responses go to the program, and requests beyond a limit are refused.
func TestBounds(t *testing.T) {
	a, d := asked(t, 0)
	b := segment(1, true, 0)
	b[3] = uint8(mad.MethodReport)
	var e Event
	if a.Handle(2, &umad.Path{}, b); !a.NextEvent(&e) || !bytes.Equal(e.Data, b) {
		t.Error("a report is not delivered")
	}
	for range maxRequests - 1 {
		if err := a.Request(1, d, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Request(1, d, 1, 0); err != ErrFull {
		t.Error("one too many:", err)
	}
	a, _ = asked(t, 0)
	for n := uint32(1); ; n++ {
		if a.Handle(2, &umad.Path{}, segment(n, false, 0)); a.Deadline() == 2 {
			break
		}
		if int(n)*sa.DataLen > maxResponse {
			t.Fatal("a response has no bound")
		}
	}
}

func FuzzHandle(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0}, []byte{0})
	f.Add(segment(1, true, 10), segment(2, true, 10))
	f.Add(segment(1, false, 0), segment(2, true, 30))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a, _ := asked(t, 1)
		for _, b := range [][]byte{one, two} {
			a.Handle(2, &umad.Path{}, b)
		}
		a.HandleTimeout(clock.Time(1e12))
		a.HandleTimeout(clock.Time(2e12))
		var e Event
		for a.NextEvent(&e) {
			if len(e.Data) > len(one)+len(two)+umad.Len {
				t.Fatal("more bytes than came")
			}
		}
		if a.Deadline() != 0 {
			t.Fatal("it waits without end")
		}
	})
}
