// SPDX-License-Identifier: Apache-2.0

package valkey_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/valkey"
)

// In virtual time, on networks that lose, repeat and reorder packets and part hosts for a time, a client's data comes
// back from a server that echoes it, with buffers, queues and writes of any size.
func TestSeeds(t *testing.T) {
	rdmatest.Run(t, 100, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		s, c := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets | rdmatest.Passing)
		up := func(from, n int) int { return from + w.Rand.IntN(n) }
		o := valkey.Options{RecvBuffer: up(2048, 40000), SendBuffer: up(1024, 9000), SendQueue: up(16, 20),
			RecvQueue: up(16, 20),
			Inline:    up(-1, 200)}
		data, piece := make([]byte, up(1, 200000)), up(1, 7000)
		for i := range data {
			data[i] = byte(w.Rand.Uint32())
		}
		l, err := (&valkey.ListenConfig{Device: s, Options: o}).Listen(t.Context(), ":7")
		if err != nil {
			w.Fatal(err)
		}
		server.Go(func(context.Context) error {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = io.Copy(conn, conn)
			return err
		})
		err = client.Go(func(ctx context.Context) error {
			conn, err := (&valkey.Dialer{Device: c, Options: o}).DialContext(ctx, "tcp", server.Addr().String()+":7")
			if err != nil {
				return err
			}
			defer conn.Close()
			client.Go(func(context.Context) error {
				for b := data; len(b) > 0; {
					n, err := conn.Write(b[:min(piece, len(b))])
					if err != nil {
						return err
					}
					b = b[n:]
				}
				return nil
			})
			got := make([]byte, len(data))
			if _, err := io.ReadFull(conn, got); err != nil {
				return err
			}
			if !bytes.Equal(got, data) {
				return errors.New("other bytes come back")
			}
			return nil
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	})
}
