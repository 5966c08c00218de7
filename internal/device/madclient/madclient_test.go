// SPDX-License-Identifier: Apache-2.0

package madclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// A table of the administrator arrives in one piece, and a request without a responder times out.
func TestAgent(t *testing.T) {
	const hosts = 8
	f := softfabric.Start(t, "star:8")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dev, err := f.Open("host-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	events := make(chan Event, 16)
	a, err := Open(dev, 1, umad.Spec{Class: sa.Class, Version: sa.ClassVersion}, true, func(e Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p, err := dev.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	next := func() Event {
		select {
		case e := <-events:
			return e
		case <-ctx.Done():
			t.Fatal("nothing came")
		}
		return Event{}
	}
	h := sa.NewHeader(sa.MethodGetTable, sa.AttrNodeRecord, 7, 0)
	if err := a.Send(umad.Path{AH: verbs.AHAttr{DLID: p.SMLID}}, h.Append(nil), 5*time.Second, 3); err != nil {
		t.Fatal(err)
	}
	e := next()
	h.Decode(e.Data)
	if e.TimedOut || uint32(h.TID) != 7 || h.Status != mad.StatusOK {
		t.Fatalf("%+v", h)
	}
	if n := (len(e.Data) - sa.HeaderLen) / (8 * int(h.Offset)); n != hosts+1 {
		t.Errorf("%d records of %d bytes in %d bytes, not %d", n, 8*h.Offset, len(e.Data), hosts+1)
	}

	const nobody = 0xbeef
	h = sa.NewHeader(mad.MethodGet, sa.AttrNodeRecord, 8, 0)
	if err := a.Send(umad.Path{AH: verbs.AHAttr{DLID: nobody}}, h.Append(nil), 10*time.Millisecond, 1); err != nil {
		t.Fatal(err)
	}
	e = next()
	if h.Decode(e.Data); !e.TimedOut || uint32(h.TID) != 8 || e.Path.AH.DLID != nobody {
		t.Errorf("a request to nobody: %+v to %+v", h, e.Path)
	}
}

// A datagram that is sent after Close is refused, not lost without an error.
func TestSendAfterClose(t *testing.T) {
	f := softfabric.Start(t, "pair")
	dev, err := f.Open("host-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	a, err := Open(dev, 1, umad.Spec{Class: sa.Class, Version: sa.ClassVersion}, true,
		func(Event) { t.Error("an event after Close") })
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	h := sa.NewHeader(mad.MethodGet, sa.AttrNodeRecord, 7, 0)
	if err := a.Send(umad.Path{AH: verbs.AHAttr{DLID: 1}}, h.Append(nil), time.Second, 1); !errors.Is(err,
		verbs.ErrClosed) {
		t.Errorf("a request of a closed agent: %v", err)
	}
}
