// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// hub joins ports in memory.
type hub struct {
	mu    sync.Mutex
	ports map[verbs.GID]*memPort
}

// memPort is a port of a hub that counts what the device does with it.
type memPort struct {
	memWaiter
	hub     *hub
	gid     verbs.GID
	arrived []arrived // in.mu guards it

	full     atomic.Bool // Send returns ErrAgain
	lose     atomic.Bool // Send loses everything
	broken   atomic.Bool // Wait fails
	waits    atomic.Int32
	receives atomic.Int32
	slow     atomic.Int64 // nanoseconds that Receive takes
	atWait   atomic.Pointer[func()]
	atSend   atomic.Pointer[func(*ibta.Batch)]
	packet   ib.Packet
}

type arrived struct {
	frame []byte
	from  verbs.GID
}

// newPort adds a port to the hub.
func (h *hub) newPort() *memPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports == nil {
		h.ports = make(map[verbs.GID]*memPort)
	}
	addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(h.ports) + 1)})
	p := &memPort{memWaiter: memWaiter{in: &changes{}}, hub: h, gid: ib.GIDFromAddr(addr)}
	h.ports[p.gid] = p
	return p
}

func (p *memPort) Follow(func(int, ...verbs.EventType)) {}

func (p *memPort) Ports() int { return 1 }

func (p *memPort) Info(int) PortInfo {
	return PortInfo{verbs.PortAttr{State: verbs.PortActive, Link: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024},
		[]verbs.GIDEntry{{GID: p.gid, Type: verbs.GIDRoCEv2}}, OnePartition}
}

func (p *memPort) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: 16, MaxBytes: 60000, Window: 1 << 20, Overhead: 192}
}

// memPath leads to the port of a GID. Nobody knows how full its buffer is.
type memPath verbs.GID

func (memPath) Full() bool  { return false }
func (memPath) Holds() bool { return false }

func (p memPath) Key() ibta.PathKey { return ibta.PathKey{GID: verbs.GID(p), Port: 1} }

func (p *memPort) Resolve(attr *verbs.AHAttr) (ibta.Path, error) { return memPath(attr.DGID), nil }

func (p *memPort) Send(b *ibta.Batch) error {
	if p.full.Load() {
		return ErrAgain
	}
	if f := p.atSend.Load(); f != nil {
		(*f)(b)
	}
	p.hub.mu.Lock()
	to := p.hub.ports[verbs.GID(b.To.Path.(memPath))]
	p.hub.mu.Unlock()
	if to == nil || p.lose.Load() {
		return nil
	}
	var frames []arrived
	for i := range b.Len() {
		pkt := b.Packet(i)
		frame := append([]byte(nil), pkt.Head...)
		for _, piece := range pkt.Payload {
			frame = append(frame, piece...)
		}
		frame = append(frame, pkt.Tail...)
		frames = append(frames, arrived{frame[:len(frame)-ib.ICRCLen], p.gid})
	}
	to.in.change(func() { to.arrived = append(to.arrived, frames...) })
	return nil
}

func (p *memPort) Receive(_ *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	p.receives.Add(1)
	time.Sleep(time.Duration(p.slow.Load()))
	p.in.mu.Lock()
	if p.closed {
		p.in.mu.Unlock()
		return 0, net.ErrClosed
	}
	got := p.arrived
	p.arrived = nil
	p.in.mu.Unlock()
	for _, a := range got {
		if err := p.packet.Decode(a.frame); err != nil {
			panic(err)
		}
		deliver(&p.packet, &ibta.Arrival{From: memPath(a.from).Key(), To: p.gid, Global: true,
			Header: &ib.IPHeader{Src: a.from, Dst: p.gid, Length: len(a.frame), IPv4: true}})
	}
	return len(got), nil
}

func (p *memPort) Connect(ibta.Path)    {}
func (p *memPort) Disconnect(ibta.Path) {}

func (p *memPort) WantHeaders()                            {}
func (p *memPort) JoinGroup(int, verbs.GID, uint16) error  { return nil }
func (p *memPort) LeaveGroup(int, verbs.GID, uint16) error { return nil }

func (p *memPort) Wait(writable bool) error {
	p.waits.Add(1)
	if f := p.atWait.Load(); f != nil {
		(*f)()
	}
	if p.broken.Load() {
		return syscall.ENOMEM
	}
	return p.wait(func() bool { return len(p.arrived) > 0 || writable && !p.full.Load() })
}

func (p *memPort) isClosed() bool {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.closed
}

// side is a device on a hub with one queue pair.
type side struct {
	t    *testing.T
	port *memPort
	soft *PacketDevice
	dev  *verbs.Device
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	qp   *verbs.QP
	ep   verbs.Endpoint
}

// open makes the side's device of a port, and what any queue pair of it needs: its region has n bytes.
func (s *side) open(t *testing.T, port Port, n int) {
	t.Helper()
	s.t, s.soft = t, New("test", "test", 1, port)
	s.dev = driver.NewDevice(s.soft)
	t.Cleanup(func() { s.dev.Close() })
	var err error
	s.pd, err = s.dev.AllocPD()
	s.ok(err)
	s.cq, err = s.dev.CreateCQ(64, &verbs.CQOptions{Spin: -1})
	s.ok(err)
	s.mr, err = s.pd.RegMR(make([]byte, n), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	s.ok(err)
}

func (h *hub) newSide(t *testing.T) *side {
	t.Helper()
	s := &side{port: h.newPort()}
	s.open(t, s.port, 1<<20)
	var err error
	s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	s.ok(err)
	s.ep, err = s.qp.Endpoint(0)
	s.ok(err)
	return s
}

// newPair makes two connected devices.
func newPair(t *testing.T) (a, b *side) {
	t.Helper()
	var h hub
	a, b = h.newSide(t), h.newSide(t)
	a.ok(a.qp.Connect(a.ep, b.ep, nil))
	b.ok(b.qp.Connect(b.ep, a.ep, nil))
	return a, b
}

func (s *side) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// write posts a signaled WRITE of n bytes.
func (s *side) write(to *side, n int) {
	s.t.Helper()
	s.ok(s.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, n)}, Remote: to.mr.Remote()}))
}

// eventually polls for a condition that must come true.
func (s *side) eventually(cond func() bool, what string) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			s.t.Fatal("never: " + what)
		}
	}
}
