// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Host is a machine with one address and one process.
type Host struct {
	// Pause is how long a goroutine waits whose polls find nothing. A device takes it when it is opened.
	Pause time.Duration
	// Window is how many bytes a device over packets believes that its peers' buffers hold. A device takes it
	// when it is opened.
	Window int
	// Buffer is how many bytes such a device's own buffer holds, the cost of each packet beside its bytes
	// included.
	Buffer int
	// PerPacket is how long it takes to handle a packet that has come, which is in the buffer until then.
	PerPacket time.Duration

	net   *Net
	index int
	addr  netip.Addr

	up      bool // its link is
	stopped bool // its process gets no time
	off     bool // it has no power
	place   uint64

	overflows uint64 // packets that Buffer had no room for
	open      []device
	sockets   *sockets // nil: no program has asked for one
	skip      int      // regions that are registered before some are refused
	refuse    int      // and their number
}

// device is a device that a host has open.
type device interface {
	// look has goroutines that wait look again.
	look()
	// follow tells of an event of the port, without the lock.
	follow(verbs.EventType)
	// kill ends the objects that the system keeps for a process.
	kill()
}

// NewHost adds a host.
func (n *Net) NewHost() *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.hosts)
	h := &Host{Pause: 5 * time.Microsecond, Window: portWindow, Buffer: recvBuffer, net: n, index: i, up: true,
		addr:  netip.AddrFrom4([4]byte{192, 0, 2 + byte(i/250), byte(i%250 + 1)}),
		place: uint64(i+1) << 40}
	n.hosts = append(n.hosts, h)
	return h
}

// Addr returns the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// OpenRoCE opens a device over packets.
func (h *Host) OpenRoCE() *verbs.Device {
	p := newPort(h)
	h.add(p)
	return driver.NewDevice(packetdev.New("roce:"+h.addr.String(), "roce", uint64(h.index+1), p))
}

// OpenIWARP opens a device over streams.
func (h *Host) OpenIWARP() (*verbs.Device, error) {
	s := newStreams(h)
	h.add(s)
	d, err := streamdev.New("iwarp:"+h.addr.String(), "iwarp", uint64(h.index+1), s)
	if err != nil {
		return nil, err
	}
	return driver.NewDevice(d), nil
}

func (h *Host) add(d device) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.open = append(h.open, d)
}

// SetLink brings the host's link up or down. Its devices hear of it.
func (h *Host) SetLink(up bool) {
	n := h.net
	n.mu.Lock()
	changed := h.up != up
	h.up = up
	n.note("link", h.addr, h.addr, up)
	open := h.open
	n.mu.Unlock()
	if !changed {
		return
	}
	e := verbs.EventPortError
	if up {
		e = verbs.EventPortActive
	}
	for _, d := range open {
		d.follow(e)
	}
}

// Stop keeps the host's process from sending and receiving, as SIGSTOP does, or lets it go on. The
// system's buffers fill meanwhile. Its programs' clocks go on.
func (h *Host) Stop(stop bool) {
	n := h.net
	n.mu.Lock()
	h.stopped = stop
	n.note("stop", h.addr, h.addr, stop)
	open := slices.Clone(h.open)
	for _, d := range open {
		d.look()
	}
	n.mu.Unlock()
	for _, d := range open {
		if a, ok := d.(*attachment); ok {
			a.Attachment.Stop(stop)
		}
	}
}

// PowerOff ends the host without a word, for good.
func (h *Host) PowerOff() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.off = true
	h.net.note("off", h.addr, h.addr, true)
}

// Kill ends the host's process, as SIGKILL does, for good: no device receives its packets any more, and
// the system closes its streams.
func (h *Host) Kill() {
	n := h.net
	n.mu.Lock()
	n.note("kill", h.addr, h.addr, true)
	open := slices.Clone(h.open)
	for _, d := range open {
		d.kill()
	}
	n.mu.Unlock()
	for _, d := range open {
		if a, ok := d.(*attachment); ok {
			a.Attachment.Close()
		}
	}
}

// RefuseRegions has the host's devices register the next skip regions and refuse count after them.
func (h *Host) RefuseRegions(skip, count int) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.skip, h.refuse = skip, count
}

// refuseRegion returns why a region is refused; nil: it is not.
func (h *Host) refuseRegion() error {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case h.refuse == 0:
		return nil
	case h.skip > 0:
		h.skip--
		return nil
	}
	h.refuse--
	n.note("region refused", h.addr, h.addr, true)
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNoMemory, Detail: "the simulation refuses the region"}
}

// Remove takes the host's devices out of it, as hot-unplugging does: programs hear EventDeviceFatal, and nothing
// is sent or received any more.
func (h *Host) Remove() {
	n := h.net
	n.mu.Lock()
	open := slices.Clone(h.open)
	n.note("remove", h.addr, h.addr, true)
	n.mu.Unlock()
	for _, d := range open {
		if _, ok := d.(*sockets); !ok {
			d.follow(verbs.EventDeviceFatal)
		}
	}
	n.mu.Lock()
	for _, d := range open {
		switch d := d.(type) {
		case *Port:
			d.kill()
		case *Streams: // and not sockets, which are the system's
			d.remove()
		}
	}
	n.mu.Unlock()
	for _, d := range open {
		if a, ok := d.(*attachment); ok {
			a.Attachment.Remove()
		}
	}
}

// reaches reports whether a packet that h sends now arrives at another host.
func (h *Host) reaches(to *Host) bool {
	return !h.off && !to.off && h.up && to.up && !h.net.path(h, to).Cut && !h.net.path(h, to).Dead
}

// info is the port's attributes as package verbs has them.
func (h *Host) info(t verbs.GIDType) softdev.PortInfo {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	state := verbs.PortActive
	if !h.up {
		state = verbs.PortDown
	}
	return softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: state, Link: verbs.LinkEthernet, NetDev: "sim0", MaxMTU: verbs.MTU4096,
			ActiveMTU: verbs.MTU4096, LinkMTU: 9000, SpeedMbps: 10000},
		GIDTable:  []verbs.GIDEntry{{GID: ib.GIDFromAddr(h.addr), Type: t, NetDev: "sim0"}},
		PKeyTable: softdev.OnePartition,
	}
}

// AllocAddr returns an address for a region.
func (h *Host) AllocAddr(size int) uint64 {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	const page = 1 << 12
	at := h.place
	h.place += uint64(size+2*page-1) &^ (page - 1) // a page lies between two regions
	return at
}
