// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibcm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// wireAgent is an agent whose peer is a test.
type wireAgent struct {
	driver.UnsupportedMADAgent
	in   chan []byte
	sent chan []byte
	done chan struct{}
	from umad.Path
}

func (g *wireAgent) Send(_ umad.Path, b []byte) error {
	select {
	case g.sent <- append([]byte(nil), b...):
	default:
	}
	return nil
}

func (g *wireAgent) Recv(_ context.Context, b []byte) (int, umad.Path, error) {
	select {
	case m := <-g.in:
		return copy(b, m), g.from, nil
	case <-g.done:
		return 0, umad.Path{}, verbs.ErrClosed
	}
}

func (g *wireAgent) Transactions() uint32 { return 1 }
func (g *wireAgent) Close() error         { close(g.done); return nil }

// request returns the REQ of an engine.
func request(to netip.Addr, port uint16) []byte {
	e := ibcm.New(ibcm.Config{})
	h := mad.NewIPAddress(netip.MustParseAddrPort("127.0.0.1:40000"), to)
	gid := ib.GIDFromAddr(netip.MustParseAddr("127.0.0.1"))
	e.Connect(1, &ibcm.ConnectParams{To: verbs.AHAttr{DGID: gid}, LocalGID: gid, Service: service(TCP, port), QPN: 7,
		PathMTU: verbs.MTU1024, RetryCount: 7, PrivateData: h.Append(nil)})
	var out ibcm.Datagram
	e.NextMAD(&out)
	return out.MAD[:]
}

// FuzzRequest changes bytes of a request, and of the messages that follow it, and accepts all
// requests: the listener gets no error, and nothing is left.
func FuzzRequest(f *testing.F) {
	f.Add([]byte{0})
	dev, addr := loopback.Open(f, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	plain := openMAD
	defer func() { openMAD = plain }()
	f.Add([]byte{})
	f.Add([]byte{0, 24 + 48 + 2, 0xff})                                // path MTU
	f.Add([]byte{0, 24 + 52 + 4, 0xff, 0, 24 + 52 + 5, 0x12})          // the caller's GID
	f.Add([]byte{0, 24 + 40 + 3, 0x0e})                                // transport
	f.Add([]byte{0, 24 + 40 + 3, 0x06, 0, 24 + 51, 0xf1})              // XRC
	f.Add([]byte{0, 24 + 140 + 1, 0x70})                               // IP version
	f.Add([]byte{1, 17, 0x14, 1, 24, 9})                               // an RTU out of nowhere
	f.Add([]byte{0, 24 + 52 + 43, 0, 0, 24 + 35, 0xff, 0, 24 + 39, 0}) // timeout, depths
	f.Fuzz(func(t *testing.T, changes []byte) {
		g := &wireAgent{in: make(chan []byte), sent: make(chan []byte, 16), done: make(chan struct{}),
			from: umad.Path{AH: verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("127.0.0.1"))}}}
		openMAD = func(driver.MADDevice) (driver.MADAgent, error) { return g, nil }
		l, err := Listen(t.Context(), dev, ":7471", WithRecvSize(64), WithDepth(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept(ctx)
				if err != nil {
					ended <- err
					return
				}
				c.drop()
			}
		}()
		mads := [2][]byte{request(addr, 7471), nil}
		mads[1] = append(mads[1], mads[0]...)
		for ; len(changes) >= 3; changes = changes[3:] {
			mads[changes[0]&1][changes[1]] = changes[2]
		}
		for _, m := range mads {
			g.in <- m
		}
		g.in <- mads[0]
		g.in <- nil // was handled when this is taken
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Accept: %v", err)
		}
		m := l.id.m
		l.Close()
		m.mu.Lock()
		for id := range m.ids {
			t.Errorf("an id is left, %v", id.state)
		}
		if !m.stopped {
			m.stop() // answers of the peer do not come
		}
		m.unlock()
	})
}
