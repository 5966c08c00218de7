// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	iblink "github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Fabric is an InfiniBand fabric whose links take the time that their width and speed say. Hosts have their
// adapters at it.
type Fabric struct {
	*infiniband.Fabric
	net      *Net
	host     *Host              // whose waiter is made next
	attached *fabric.Attachment // of the device that was opened last
}

// NewFabric starts a fabric of a generated topology. The packets that its cables corrupt follow from seed.
func (n *Net) NewFabric(shape string, seed uint64) (*Fabric, error) {
	t, err := topology.Generate(shape)
	if err != nil {
		return nil, err
	}
	f := &Fabric{net: n, host: n.NewHost()}
	sim := &fabric.Simulation{NewWaiter: func() fabric.Waiter { return &fabricWaiter{waiter: newWaiter(f.host)} },
		Record: n.frame, Attached: func(a *fabric.Attachment) { f.attached = a }, Arrives: n.arrives}
	running, err := fabric.Start(t, &fabric.Options{Seed: seed, Simulation: sim,
		Manager: fabric.ManagerOptions{Event: n.managed}})
	if err != nil {
		return nil, err
	}
	f.Fabric = running.(*infiniband.Fabric)
	return f, nil
}

// AwaitActive waits until all links are active, as infiniband's does, and nothing else goes on when it returns.
func (f *Fabric) AwaitActive() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for f.Fabric.AwaitActive(over) != nil {
		f.net.Sleep(time.Millisecond)
	}
}

// OpenInfiniBand opens a device at an adapter of a fabric, whose address the host has from then on. One device is
// opened at a time.
func (h *Host) OpenInfiniBand(f *Fabric, adapter string) (*verbs.Device, error) {
	f.host, f.attached = h, nil
	dev, err := f.Open(adapter, nil)
	if err != nil {
		return nil, err
	}
	h.addr = driver.DeviceOf(dev).(interface{ Addrs(int) []netip.Addr }).Addrs(1)[0]
	h.add(&attachment{f.attached})
	return dev, nil
}

// attachment is a device at an adapter, as its host sees it.
type attachment struct{ *fabric.Attachment }

// look has nothing to do: goroutines that wait for packets of a fabric look by themselves.
func (a *attachment) look() {}

func (a *attachment) follow(e verbs.EventType) { a.Attachment.Raise(1, e) }

// kill has nothing to do: [Host.Kill] closes the attachment, without the network's lock.
func (a *attachment) kill() {}

// At a fabricWaiter the goroutine of a fabric waits, and the goroutines of the devices at it.
type fabricWaiter struct {
	waiter
	closed bool
}

// Wait asks ready without the network's lock: it may take the fabric's, whose holders wake others.
func (w *fabricWaiter) Wait(ready func() bool) error {
	w.net.mu.Lock()
	closed := w.closed
	w.net.mu.Unlock()
	switch {
	case closed:
		return fabric.ErrClosed
	case ready():
		return nil
	}
	return w.wait(func() bool { return false })
}

// Close ends all waits.
func (w *fabricWaiter) Close() {
	w.net.mu.Lock()
	w.closed = true
	w.net.mu.Unlock()
	w.Wake()
}

// AllocAddr returns an address for a region.
func (w *fabricWaiter) AllocAddr(size int) uint64 { return w.host.AllocAddr(size) }

// RefuseRegion returns why a region is refused.
func (w *fabricWaiter) RefuseRegion() error { return w.host.refuseRegion() }

// frame writes that a port of the fabric sends a frame, and keeps the frames of adapters.
func (n *Net) frame(_ clock.Time, from *iblink.Port, frame []byte) {
	l := n.log
	if l == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	who := from.Node().State()
	l.Text = fmt.Appendf(l.Text, "%d frame %s[%d] %d %08x\n", n.now(), who.Description, from.Num(), len(frame),
		crc32.Checksum(frame, castagnoli))
	if l.Packets && who.Type == node.CA && len(frame) > ib.FlowControlLen {
		l.packets = append(l.packets, packet{at: n.now(), infiniBand: true, frame: append([]byte(nil), frame...)})
	}
}

// managed writes the events of the built-in manager.
func (n *Net) managed(e sm.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log != nil {
		n.log.Text = fmt.Appendf(n.log.Text, "%d manager: %v\n", n.now(), e)
	}
}
