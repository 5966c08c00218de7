// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// numberPort is the port at which the first device of an address takes requests that name queue pairs; see package
// softdev.
const numberPort = 47910

// newIdler returns a device and the listener of a peer whose process lives, and has no processor.
func newIdler(t *testing.T, port uint16) (dev *verbs.Device, n *network, at netip.AddrPort) {
	t.Helper()
	opt := &Options{Dir: t.TempDir()}
	dev, err := Open("127.0.0.1", opt)
	noError(t, err)
	t.Cleanup(func() { dev.Close() })
	m, err := newNetwork(netip.MustParseAddr("127.0.0.2"), opt)
	noError(t, err)
	t.Cleanup(func() { m.Close() })
	acc, err := m.Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port), 8)
	noError(t, err)
	return dev, m.(*network), acc.Addr()
}

// TestLatePeer dials a peer that does not get to answer: that fails when the peer's process ends, and not before.
func TestLatePeer(t *testing.T) {
	testrun.SkipUnlessLong(t, "it waits for longer than set-ups over networks may take")
	dev, n, at := newIdler(t, 0)
	dialed := make(chan error, 1)
	go func() {
		_, err := cm.Dial(t.Context(), dev, at.String(), cm.WithTimeout(10*time.Minute))
		dialed <- err
	}()
	select {
	case err := <-dialed:
		t.Fatalf("while the peer lives: %v", err)
	case <-time.After(25 * time.Second):
	}
	n.Close()
	select {
	case err := <-dialed:
		if err == nil {
			t.Error("there is a connection with nobody")
		}
	case <-time.After(time.Minute):
		t.Error("the peer has ended, and Dial does not")
	}
}

// TestLatePeerByNumber has a work request wait for such a peer's device, for longer than the queue pair's retries take.
func TestLatePeerByNumber(t *testing.T) {
	testrun.SkipUnlessLong(t, "it waits for longer than a queue pair that is to be dialed does")
	dev, n, at := newIdler(t, numberPort)
	pd, err := dev.AllocPD()
	noError(t, err)
	cq, err := dev.CreateCQ(4, nil)
	noError(t, err)
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	noError(t, err)
	e, err := qp.Endpoint(0)
	noError(t, err)
	noError(t, qp.Connect(e, verbs.Endpoint{QPN: 99, PSN: 1, GID: ib.GIDFromAddr(at.Addr()), MTU: verbs.MTU4096},
		&verbs.ConnectOptions{Timeout: 8}))
	noError(t, qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled}))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	var wcs [1]verbs.WC
	if k, err := cq.Wait(ctx, wcs[:]); k > 0 || ctx.Err() == nil {
		t.Fatalf("while the peer lives: %v, %v", wcs[0].Status, err)
	}
	n.Close()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err := cq.Wait(ctx, wcs[:]); k != 1 || wcs[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("when the peer has ended: %v, %v", wcs[0].Status, err)
	}
}
