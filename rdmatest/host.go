// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Host is a host of a world: an address, a link and a process.
type Host struct {
	w    *World
	name string
	sim  *simnet.Host

	mu      sync.Mutex
	ctx     context.Context // of the process
	kill    context.CancelCauseFunc
	devices []*verbs.Device
	checked []*check.Device // of these, if they are checked
	adapter infiniband.End  // of its InfiniBand device
	fabric  *simnet.Fabric  // nil: it has none
	cable   infiniband.End  // the switch that the adapter is connected to
	dead    bool            // a process was killed, a device removed, or the power is off
}

// start begins a process.
func (h *Host) start() { h.ctx, h.kill = context.WithCancelCause(h.w.ctx) }

// Name returns the name that the test has given it.
func (h *Host) Name() string { return h.name }

// Addr returns the host's address. It is that of its InfiniBand port if such a device has been opened.
func (h *Host) Addr() netip.Addr { return h.sim.Addr() }

// String returns the name.
func (h *Host) String() string { return h.name }

// Context ends when the host's process is killed, its power fails, or the test has ended.
func (h *Host) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx
}

// Go runs a program in the host's process. Its context is the host's. An error that it returns fails the test, unless
// the context has ended, or somebody calls [Task.Wait], which returns it.
func (h *Host) Go(program func(ctx context.Context) error) *Task {
	return h.w.run(h, h.Context(), program)
}

// RoCE opens a RoCEv2 device.
func (h *Host) RoCE() *verbs.Device { return h.opened("roce", h.sim.OpenRoCE(), nil) }

// IWARP opens an iWARP device.
func (h *Host) IWARP() *verbs.Device {
	d, err := h.sim.OpenIWARP()
	return h.opened("iwarp", d, err)
}

// InfiniBand opens the device of an adapter of a fabric. Adapters of generated fabrics are host-1, host-2, and so on;
// empty: the first that nobody uses. A host has one adapter, and an adapter one host: links, paths and stops belong to
// hosts.
func (h *Host) InfiniBand(f *Fabric, adapter string) *verbs.Device {
	h.w.Helper()
	d, err := h.sim.OpenInfiniBand(f.sim, adapter)
	if err != nil {
		return h.opened("", nil, err)
	}
	_, name, _ := strings.Cut(d.Name(), ":") // behind the kind
	at := infiniband.End{Node: name, Port: 1}
	owner := h.w.at(f.sim, at)
	h.mu.Lock()
	switch {
	case owner != nil && owner != h:
		err = fmt.Errorf("adapter %s is that of host %s: choose another one", at.Node, owner)
	case h.fabric != nil && (h.fabric != f.sim || h.adapter != at):
		err = fmt.Errorf("it has adapter %s already, and cannot have %s, too: add a host", h.adapter.Node, at.Node)
	default:
		h.fabric, h.adapter = f.sim, at
	}
	h.mu.Unlock()
	if err != nil {
		d.Close()
	}
	return h.opened("infiniband at "+at.Node, d, err)
}

func (h *Host) opened(what string, d *verbs.Device, err error) *verbs.Device {
	h.w.Helper()
	if err != nil {
		h.w.Fatalf("host %s: %v", h.name, err)
	}
	h.w.Say("host %s, %v: %s", h.name, h.Addr(), what)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.devices = append(h.devices, d)
	if h.w.checker != nil {
		h.checked = append(h.checked, h.w.checker.Watch(d))
	}
	return d
}

// takeDevices returns the devices of a process that ends.
func (h *Host) takeDevices() []*verbs.Device {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.devices
	h.devices = nil
	return d
}

// Listen listens at a TCP port of the host, for messages of programs beside RDMA; 0 stands for a free port.
func (h *Host) Listen(port uint16) (net.Listener, error) { return h.sim.ListenTCP(port) }

// Dial connects to a TCP port of a host, such as "192.0.2.1:80", or "server:80" by the host's name.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("rdmatest: port %q of %q is no number from 0 to 65535", port, address)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		to := h.w.named(host)
		if to == nil {
			return nil, fmt.Errorf("rdmatest: %q is no address, and no host has this name", host)
		}
		addr = to.Addr()
	}
	return h.sim.DialTCP(ctx, netip.AddrPortFrom(addr, uint16(n)))
}

// at returns the host that has an adapter; nil: none has.
func (w *World) at(f *simnet.Fabric, adapter infiniband.End) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		h.mu.Lock()
		found := h.fabric == f && h.adapter == adapter
		h.mu.Unlock()
		if found {
			return h
		}
	}
	return nil
}

func (w *World) named(name string) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// Died reports whether the host has lost a process, a device or its power: other hosts' operations with it may fail.
func (h *Host) Died() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// Kill ends the host's process, as SIGKILL does. Nothing that it does from now on reaches anybody. The system closes
// its TCP connections; peers of RoCE and InfiniBand hear nothing. Its context ends, and calls on its devices fail.
// Devices and connections that are opened on the host after that belong to a new process.
func (h *Host) Kill() {
	h.sim.Kill()
	h.ended(errKilled)
}

// ended ends the process: nothing of it is heard any more.
func (h *Host) ended(why error) {
	h.mu.Lock()
	h.dead = true
	for _, c := range h.checked {
		c.Abandon()
	}
	h.checked = nil
	h.kill(why)
	h.start()
	h.mu.Unlock()
	for _, d := range h.takeDevices() {
		h.w.closing.Go(func() { d.Close() })
	}
}

// Stop keeps the host's process from sending and receiving, as SIGSTOP does, or lets it go on. The system takes
// meanwhile as much data as its buffers hold. Its clocks go on. On InfiniBand its packets keep their place in the
// buffers of its port for a second, and hold others back; after that they are lost.
func (h *Host) Stop(stop bool) { h.sim.Stop(stop) }

func (h *Host) onFabric() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fabric != nil
}

// PowerOff ends the host for good, and no peer gets a message.
func (h *Host) PowerOff() {
	h.sim.PowerOff()
	if h.onFabric() {
		h.setCable(false)
		h.sim.Kill()
	}
	h.ended(errOff)
}

// Remove takes the host's devices out of it, as unplugging does. Its programs get EventDeviceFatal and go on, but
// nothing is sent or received any more. On iWARP the connections are reset at both ends.
func (h *Host) Remove() {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	h.sim.Remove()
}

// SetLink brings the host's link down, or up again. Its devices report it.
func (h *Host) SetLink(up bool) {
	if h.onFabric() {
		h.setCable(up)
		return
	}
	h.sim.SetLink(up)
}

// setCable pulls the cable of the host's adapter, or plugs it in again.
func (h *Host) setCable(in bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.fabric
	if in && h.cable.Node != "" {
		f.Plug(h.adapter, h.cable)
		h.cable = infiniband.End{}
		return
	}
	if in {
		return
	}
	for _, c := range f.View().Cables {
		switch {
		case c.A == h.adapter:
			h.cable = c.B
		case c.B == h.adapter:
			h.cable = c.A
		default:
			continue
		}
		f.Pull(h.adapter)
		return
	}
}

// HoldReceives has messages find no receive at the host's devices, whatever programs have posted, or lets them find
// receives again. Senders get RNR NAKs, and [World.Check] looks for RNR NAKs no more. iWARP has none: the test fails if
// the host has such a device.
func (h *Host) HoldReceives(on bool) {
	h.mu.Lock()
	devices := h.devices
	h.mu.Unlock()
	for _, d := range devices {
		held, ok := driver.DeviceOf(d).(interface{ HoldReceives(bool) })
		if !ok {
			h.w.Fatalf("host %s: %s has no RNR NAK, so its receives cannot be held back", h.name, d.Name())
		}
		held.HoldReceives(on)
	}
	if c := h.w.checker; c != nil {
		c.Disable(check.RNRUnlimited)
	}
}

// RefuseRegions has the host's devices register the next skip regions, and refuse count regions after these with
// [verbs.ErrNoMemory]. Packages cm and rnet register regions, too.
func (h *Host) RefuseRegions(skip, count int) { h.sim.RefuseRegions(skip, count) }

// onStreams reports whether one of the host's devices has no RNR NAK.
func (h *Host) onStreams() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.devices {
		if _, ok := driver.DeviceOf(d).(interface{ HoldReceives(bool) }); !ok {
			return true
		}
	}
	return false
}

// SetPoll sets how long, in virtual time, a goroutine waits whose polls find nothing, for devices that are opened from
// now on. It is 5 µs by default.
func (h *Host) SetPoll(d time.Duration) { h.sim.Pause = d }
