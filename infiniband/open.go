// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Options are optional parameters of Open; nil stands for the zero value.
type Options struct {
	Trace *trace.Writer // receives every packet in both directions
}

// device is a device at an adapter.
type device struct {
	*packetdev.Device
	port *port
}

// Addrs returns the IP address of the adapter, if it has one.
func (d *device) Addrs(int) []netip.Addr {
	if a := d.port.Addr(); a.IsValid() {
		return []netip.Addr{a}
	}
	return nil
}

// Neighbor returns the GID of an IP address.
func (d *device) Neighbor(a netip.Addr) (verbs.GID, bool) { return d.port.Neighbor(a) }

// newPort returns a port without an adapter, to attach with as its driver.
func newPort(w fabric.Waiter, opt *Options) *port {
	p := &port{Waiter: w}
	if opt != nil {
		p.tracer.w = opt.Trace
	}
	return p
}

// open completes the port with its adapter, and returns the device.
func (p *port) open(name string, a adapter) *verbs.Device {
	p.adapter = a
	p.parker, _ = p.Waiter.(softdev.Parker)
	p.poller, _ = p.Waiter.(softdev.PollWaiter)
	p.ends = [2]func() bool{a.Ready, func() bool { return a.Ready() || !a.Full() }}
	if v, ok := p.Waiter.(softdev.Virtual); ok {
		return driver.NewDevice(&device{packetdev.New(name, "infiniband", a.GUID(), &virtualPort{p, v}), p})
	}
	return statsocket.Publish(driver.NewDevice(&device{packetdev.New(name, "infiniband", a.GUID(), p), p}))
}

// virtualPort is a port on a fabric in virtual time.
type virtualPort struct {
	*port
	softdev.Virtual
}
