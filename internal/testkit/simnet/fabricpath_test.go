// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// TestLostOnFabric: packets that a path between adapters loses are in the trace, and marked in the recording where
// they left.
func TestLostOnFabric(t *testing.T) {
	log := &simnet.Log{Packets: true}
	for _, f := range simnet.Play(t, 1, log, func(w *rdmatest.World) {
		f := w.Fabric("star:2")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		w.SetPath(b, a, func(p *rdmatest.Path) { p.Loss = 0.2 })
		a.Go(func(ctx context.Context) error {
			l, err := cm.Listen(ctx, server, ":7")
			if err != nil {
				return err
			}
			defer l.Close()
			conn, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			for range 30 {
				m, err := conn.Recv(ctx)
				if err != nil {
					return err
				}
				m.Release()
			}
			return nil
		})
		err := b.Go(func(ctx context.Context) error {
			conn, err := cm.Dial(ctx, client, a.Addr().String()+":7")
			if err != nil {
				return err
			}
			defer conn.Close()
			for range 30 {
				if err := conn.Send(ctx, make([]byte, 1000)); err != nil {
					return err
				}
			}
			return nil
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	}) {
		t.Error(f)
	}
	want, marked := strings.Count(string(log.Text), " lost 198.18.0.2 > 198.18.0.1 "), 0
	var file bytes.Buffer
	if err := log.WritePackets(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := capture.ReadFrom(&file, func(p *capture.Packet) {
		if p.Comment == "lost" {
			marked++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if want == 0 || marked != want {
		t.Errorf("%d packets are lost, %d are marked", want, marked)
	}
}
