// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// busySA is the agent and the driver of a port whose subnet administrator is busy.
type busySA struct {
	driver.Device
	driver.UnsupportedMADAgent
	busy    int // answers that are still to say so
	sent    []time.Time
	answers chan []byte
}

func (b *busySA) QueryPort(int) (verbs.PortAttr, error) { return verbs.PortAttr{SMLID: 1}, nil }
func (b *busySA) OpenMAD(int, verbs.QPN, umad.Spec) (driver.MADAgent, error) {
	return b, nil
}
func (b *busySA) Transactions() uint32 { return 1 }
func (b *busySA) Close() error         { close(b.answers); return nil }

func (b *busySA) Send(_ umad.Path, m []byte) error {
	b.sent = append(b.sent, time.Now())
	var h sa.Header
	h.Decode(m)
	h.Method |= mad.MethodGetResp &^ mad.MethodGet
	if b.busy > 0 {
		b.busy--
		h.Status = mad.StatusBusy
	}
	b.answers <- append(h.Append(nil), make([]byte, mad.Size-sa.HeaderLen)...)
	return nil
}

func (b *busySA) Recv(_ context.Context, m []byte) (int, umad.Path, error) {
	a, ok := <-b.answers
	if !ok {
		return 0, umad.Path{}, verbs.ErrClosed
	}
	return copy(m, a), umad.Path{}, nil
}

// An administrator that is busy is asked again after a pause, not at once.
func TestBusyAdministrator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busySA{busy: 3, answers: make(chan []byte, 1)}
		a := newAdministrator(b)
		defer a.close()
		if _, err := a.path(t.Context(), verbs.GID{}, verbs.GID{}); err != nil {
			t.Fatal(err)
		}
		if len(b.sent) != 4 {
			t.Fatalf("%d queries, want 4", len(b.sent))
		}
		for i, at := range b.sent {
			if d := at.Sub(b.sent[0]); d != time.Duration(i)*repeatQuery {
				t.Errorf("query %d came after %v", i, d)
			}
		}

		b.busy = 1000
		ctx, cancel := context.WithTimeout(t.Context(), repeatQuery/2)
		defer cancel()
		if _, err := a.path(ctx, verbs.GID{}, verbs.GID{}); err == nil {
			t.Error("no error of a context that ended")
		}
	})
}
