// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// world is a target and a host in virtual time, of which the target takes one controller.
func world(w *rdmatest.World) (server, client *rdmatest.Host,
	dial func(h *rdmatest.Host, o nvme.HostOptions) (*nvme.Controller, error)) {
	server, client = w.Host("server"), w.Host("client")
	t := nvme.NewTarget(nvme.TargetOptions{Controllers: 1})
	sub, err := t.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	if err == nil {
		err = sub.AddNamespace(disk(1, 64<<10))
	}
	if err == nil {
		_, err = t.Listen(server.Context(), server.RoCE(), ":4420")
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { t.Close() })
	return server, client, func(h *rdmatest.Host, o nvme.HostOptions) (*nvme.Controller, error) {
		o.HostID = [16]byte{1}
		dev := h.RoCE()
		var c *nvme.Controller
		err := h.Go(func(ctx context.Context) (err error) {
			c, err = nvme.Dial(ctx, dev, server.Addr().String()+":4420", diskNQN, o)
			return err
		}).Wait()
		return c, err
	}
}

// An idle controller lives on, by its keep-alives. That of a host that is killed ends when they stay out.
func TestKeepAlive(t *testing.T) {
	rdmatest.Run(t, 3, func(w *rdmatest.World) {
		_, client, dial := world(w)
		other := w.Host("other")
		c, err := dial(client, nvme.HostOptions{KeepAlive: 5 * time.Second, LossTimeout: -1})
		if err != nil {
			w.Fatal(err)
		}
		w.Sleep(10 * time.Minute)
		if err := c.Err(); err != nil {
			w.Fatal("after ten idle minutes:", err)
		}
		client.Kill()
		w.Sleep(time.Second)
		if _, err := dial(other, nvme.HostOptions{}); !errors.Is(err, wire.ConnectControllerBusy) {
			w.Fatal("a second after the host was killed:", err)
		}
		w.Sleep(10 * time.Second)
		c, err = dial(w.Host("third"), nvme.HostOptions{})
		if err != nil {
			w.Fatal("when the keep-alive has expired:", err)
		}
		c.Close()
	})
}

// A host whose target is without power finds out, also when it does nothing, and when it reads.
func TestTargetGone(t *testing.T) {
	rdmatest.Run(t, 4, func(w *rdmatest.World) {
		server, client, dial := world(w)
		c, err := dial(client, nvme.HostOptions{KeepAlive: 5 * time.Second, LossTimeout: -1})
		if err != nil {
			w.Fatal(err)
		}
		busy := w.Rand.IntN(2) == 0
		err = client.Go(func(ctx context.Context) error {
			d, err := c.Open(ctx, 1)
			if err != nil {
				return err
			}
			if w.After(time.Second, server.PowerOff); busy {
				for err == nil {
					w.Sleep(50 * time.Millisecond)
					_, err = d.Read(ctx, make([]byte, 4096), 0)
				}
			}
			select {
			case <-c.Done():
			case <-time.After(time.Minute):
				return errors.New("a minute later the host knows nothing")
			}
			if _, err := d.Read(ctx, make([]byte, 512), 0); err == nil || c.Err() == nil {
				return errors.New("a read of a target without power")
			}
			return c.Close()
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	})
}
