// SPDX-License-Identifier: Apache-2.0

// Package memhub has ports for packets, joined in memory, and devices on them, for tests of devices.
package memhub

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Hub joins ports in memory.
type Hub struct {
	mu    sync.Mutex
	ports map[verbs.GID]*Port
}

// Port is a port of a hub that counts the device's calls.
type Port struct {
	Waiter
	hub     *Hub
	GID     verbs.GID
	Arrived []Frame // In.Mu guards it

	Full     atomic.Bool // Send returns ErrAgain
	Lose     atomic.Bool // Send loses everything
	Broken   atomic.Bool // Wait fails
	Freed    atomic.Bool // Free was called
	Waits    atomic.Int32
	Receives atomic.Int32
	Slow     atomic.Int64 // nanoseconds that Receive takes
	AtWait   atomic.Pointer[func()]
	AtSend   atomic.Pointer[func(*ibta.Batch)]
	packet   ib.Packet
}

// Free is called when no call of a closed port is pending.
func (p *Port) Free() { p.Freed.Store(true) }

// Frame is a packet without its ICRC that has arrived.
type Frame struct {
	Bytes []byte
	From  verbs.GID
}

// NewPort adds a port to the hub.
func (h *Hub) NewPort() *Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports == nil {
		h.ports = make(map[verbs.GID]*Port)
	}
	addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(h.ports) + 1)})
	p := &Port{Waiter: Waiter{In: &Changes{}}, hub: h, GID: ib.GIDFromAddr(addr)}
	h.ports[p.GID] = p
	return p
}

func (p *Port) Follow(func(int, ...verbs.EventType)) {}

func (p *Port) Ports() int { return 1 }

func (p *Port) Info(int) softdev.PortInfo {
	return softdev.PortInfo{PortAttr: verbs.PortAttr{State: verbs.PortActive, Link: verbs.LinkEthernet,
		MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024},
		GIDTable: []verbs.GIDEntry{{GID: p.GID, Type: verbs.GIDRoCEv2}}, PKeyTable: softdev.OnePartition}
}

func (p *Port) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: 16, MaxBytes: 60000, Window: 1 << 20, Overhead: 192}
}

// Path leads to the port of a GID. It is not known how full its buffer is.
type Path verbs.GID

func (Path) Full() bool  { return false }
func (Path) Holds() bool { return false }

func (p Path) Key() ibta.PathKey { return ibta.PathKey{GID: verbs.GID(p), Port: 1} }

func (p *Port) Resolve(attr *verbs.AHAttr) (ibta.Path, error) { return Path(attr.DGID), nil }

func (p *Port) Send(b *ibta.Batch) error {
	if p.Full.Load() {
		return softdev.ErrAgain
	}
	if f := p.AtSend.Load(); f != nil {
		(*f)(b)
	}
	p.hub.mu.Lock()
	to := p.hub.ports[verbs.GID(b.To.Path.(Path))]
	p.hub.mu.Unlock()
	if to == nil || p.Lose.Load() {
		return nil
	}
	var frames []Frame
	for i := range b.Len() {
		pkt := b.Packet(i)
		frame := append([]byte(nil), pkt.Head...)
		for _, piece := range pkt.Payload {
			frame = append(frame, piece...)
		}
		frame = append(frame, pkt.Tail...)
		frames = append(frames, Frame{frame[:len(frame)-ib.ICRCLen], p.GID})
	}
	to.In.Change(func() { to.Arrived = append(to.Arrived, frames...) })
	return nil
}

func (p *Port) Receive(_ *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	p.Receives.Add(1)
	time.Sleep(time.Duration(p.Slow.Load()))
	if p.IsClosed() {
		return 0, net.ErrClosed
	}
	p.In.Mu.Lock()
	got := p.Arrived
	p.Arrived = nil
	p.In.Mu.Unlock()
	for _, a := range got {
		if err := p.packet.Decode(a.Bytes); err != nil {
			panic(err)
		}
		deliver(&p.packet, &ibta.Arrival{From: Path(a.From).Key(), To: p.GID, Global: true,
			Header: &ib.IPHeader{Src: a.From, Dst: p.GID, Length: len(a.Bytes), IPv4: true}})
	}
	return len(got), nil
}

func (p *Port) Connect(ibta.Path)    {}
func (p *Port) Disconnect(ibta.Path) {}

func (p *Port) WantHeaders()                            {}
func (p *Port) JoinGroup(int, verbs.GID, uint16) error  { return nil }
func (p *Port) LeaveGroup(int, verbs.GID, uint16) error { return nil }

func (p *Port) Wait(writable bool) error {
	p.Waits.Add(1)
	if f := p.AtWait.Load(); f != nil {
		(*f)()
	}
	if p.Broken.Load() {
		return syscall.ENOMEM
	}
	return p.WaitFor(func() bool { return len(p.Arrived) > 0 || writable && !p.Full.Load() })
}
