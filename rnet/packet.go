// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// PacketConn sends and receives datagrams: a net.PacketConn that speaks the protocol of rsockets'
// datagram sockets. Datagrams go from UD queue pair to UD queue pair. Only the first to an address
// goes over a UDP socket of the same address and port. The answer tells the number of the queue
// pair there. As with UDP, datagrams may be lost, duplicated or reordered.
//
// A datagram whose send fails is reported by the WriteTo that finds out, which may be a later one.
// Later sends are not affected. Once the queue pair has failed, or the device is closed, every
// ReadFrom and WriteTo returns the reason.
type PacketConn struct {
	dev        *verbs.Device
	opt        Options
	local      netip.AddrPort
	sgid       int // row of the GID table
	maxMessage int // length limit of a datagram with its header
	udp        *net.UDPConn

	pd *verbs.PD
	qp *verbs.QP
	mr *verbs.MR // slots of slotSize bytes: receives, then sends

	readMu, writeMu sync.Mutex // held for a whole ReadFrom, WriteTo; before mu
	service         sync.WaitGroup

	mu     sync.Mutex
	read   packetReads
	write  packetWrites
	closed bool
	err    error // why the queue pair can do nothing any more
	peers  map[netip.AddrPort]*packetPeer
	notify notifier
}

// packetReads is the receiving half of a PacketConn.
type packetReads struct {
	side
	end   interrupt
	cq    *verbs.CQ
	wcs   [16]verbs.WC
	got   []verbs.WC // of wcs, not yet read
	early []packet   // received by UDP
}

// packetWrites is the sending half of a PacketConn.
type packetWrites struct {
	side
	end    interrupt
	cq     *verbs.CQ
	wcs    [16]verbs.WC
	free   []int // slots
	failed error // of a send, until a WriteTo returns it
	onUDP  bool  // a WriteTo is at the UDP socket
}

var _ net.PacketConn = (*PacketConn)(nil)

// packetPeer is an address with a known queue pair.
type packetPeer struct {
	ah   *verbs.AH
	qpn  verbs.QPN
	seen time.Time // when it was last confirmed
}

type packet struct {
	from netip.AddrPort
	data []byte
}

const (
	grhSize  = 40
	slotSize = grhSize + rsocket.MaxDatagram
	// refresh is how old the knowledge of a peer's queue pair may be: a restarted program has
	// another one.
	refresh = 5 * time.Second
	// maxPeers and maxEarly limit the memory that peers can make this side use.
	maxPeers = 4096
	maxEarly = 64
)

// ListenPacket receives datagrams at "host:port" and sends them from there. The host is the
// device's address or empty. Port 0 stands for any free port. The port is a UDP port: it is in use
// in the host's own network stack too. Devices of a fabric without IP, on InfiniBand, return
// ErrNotSupported. When ctx ends, so does the look-up of a service's name; the PacketConn stays.
func ListenPacket(ctx context.Context, dev *verbs.Device, address string) (*PacketConn, error) {
	return (&ListenConfig{Device: dev}).ListenPacket(ctx, address)
}

// ListenPacket is the function [ListenPacket], with options. Only the queues' sizes, Spin and LockedThread are used.
func (lc *ListenConfig) ListenPacket(ctx context.Context, address string) (*PacketConn, error) {
	p, err := newPacketConn(ctx, lc.Device, address, lc.Options)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Err: netError(err)}
	}
	return p, nil
}

func newPacketConn(ctx context.Context, dev *verbs.Device, address string, opt Options) (p *PacketConn, err error) {
	p = &PacketConn{dev: dev, peers: map[netip.AddrPort]*packetPeer{}}
	p.read.init(&p.mu, nil)
	p.write.init(&p.mu, nil)
	if p.opt, err = opt.withDefaults(dev); err != nil {
		return nil, err
	}
	at, err := p.find(ctx, address)
	if err != nil {
		return nil, err
	}
	if p.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err != nil {
		return nil, err
	}
	p.local = netip.AddrPortFrom(at.Addr(), p.udp.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	if err = p.open(); err != nil {
		p.destroy()
		return nil, err
	}
	p.service.Go(p.serve)
	return p, nil
}

// find returns the address to bind: one of the device's.
func (p *PacketConn) find(ctx context.Context, address string) (netip.AddrPort, error) {
	invalid := func(why string) error {
		return &verbs.OpError{Op: "listen", Err: verbs.ErrInvalid, Detail: strconv.Quote(address) + " " + why}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, invalid("is not host:port")
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return netip.AddrPort{}, invalid("has no port: " + err.Error())
	}
	switch port, err := p.dev.Port(1); {
	case err != nil:
		return netip.AddrPort{}, err
	case port.Link == verbs.LinkInfiniBand:
		return netip.AddrPort{}, &verbs.OpError{Op: "listen", Err: verbs.ErrNotSupported,
			Detail: "datagrams find their peers over UDP of the host, and " +
				p.dev.Name() +
				" has no interface there: use rnet.Listen and Dial, or datagram services of package cm (cm.UDP)"}
	}
	gids, err := p.dev.GIDs(1)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if g, ok := rowOf(gids, host); ok {
		p.sgid = g.Index
		return netip.AddrPortFrom(g.GID.Addr(), uint16(number)), nil
	}
	return netip.AddrPort{}, &verbs.OpError{Op: "listen", Err: verbs.ErrNotFound,
		Detail: host + " is no address of " + p.dev.Name()}
}

// rowOf returns the row of a GID table with an address; empty: any, an address that is good beyond the link before
// others. An adapter has a row for each version of RoCE, of which the second has the packets of UDP.
func rowOf(gids []verbs.GIDEntry, host string) (best verbs.GIDEntry, ok bool) {
	rank := func(g verbs.GIDEntry) (n int) {
		if !g.GID.Addr().IsLinkLocalUnicast() {
			n = 2
		}
		if g.Type != verbs.GIDRoCEv1 {
			n++
		}
		return n
	}
	want, err := netip.ParseAddr(host)
	if err != nil && host != "" {
		return best, false
	}
	for _, g := range gids {
		if (host == "" || g.GID.Addr() == want.Unmap().WithZone("")) && (!ok || rank(g) > rank(best)) {
			best, ok = g, true
		}
	}
	return best, ok
}

// open creates the queue pair and posts the receives.
func (p *PacketConn) open() (err error) {
	sends, recvs := p.opt.SendQueue, p.opt.RecvQueue
	port, err := p.dev.Port(1)
	if err != nil {
		return err
	}
	// A UD message is a single packet of at most the path MTU (IBTA 9.8.3).
	p.maxMessage = min(rsocket.MaxDatagram, port.ActiveMTU.Bytes())
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return err
	}
	opt := &verbs.CQOptions{Spin: -1, Notify: p.notify.call, LockedThread: p.opt.LockedThread}
	if p.write.cq, err = p.dev.CreateCQ(sends, opt); err != nil {
		return err
	}
	if p.read.cq, err = p.dev.CreateCQ(recvs, opt); err != nil {
		return err
	}
	if p.mr, err = p.pd.AllocMR(slotSize*(sends+recvs), verbs.LocalWrite); err != nil {
		return err
	}
	p.qp, err = p.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: p.write.cq, RecvCQ: p.read.cq,
		Cap: verbs.QPCap{MaxSendWR: sends, MaxRecvWR: recvs,
			MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	if err = p.qp.StartUD(cm.UDPQKey); err != nil {
		return err
	}
	for i := range recvs {
		if err = p.postRecv(i); err != nil {
			return err
		}
	}
	for i := range sends {
		p.write.free = append(p.write.free, recvs+i)
	}
	return nil
}

func (p *PacketConn) postRecv(slot int) error {
	return p.qp.PostRecv(&verbs.RecvWR{ID: uint64(slot), SGL: []verbs.SGE{p.mr.SGE(slot*slotSize, slotSize)}})
}

func (p *PacketConn) slot(i int) []byte { return p.mr.Bytes()[i*slotSize:][:slotSize] }

// LocalAddr returns the address and port that others send to, a *net.UDPAddr.
func (p *PacketConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(p.local) }

// MaxPayload returns the largest payload of a datagram, given by the device's path MTU and the
// buffers of rsockets.
func (p *PacketConn) MaxPayload() int {
	udp, ud := rsocket.UDPHeaderSize4, rsocket.HeaderSize4
	if p.local.Addr().Is6() {
		udp, ud = rsocket.UDPHeaderSize6, rsocket.HeaderSize6
	}
	return min(rsocket.MaxDatagram-udp, p.maxMessage-ud)
}

// usable returns why a side can do nothing.
func (p *PacketConn) usable(s *side) error {
	switch {
	case p.closed:
		return net.ErrClosed
	case s.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// ReadFrom receives a datagram. The part that does not fit in b is lost.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.ReadFromAddrPort(b)
	if err != nil {
		return 0, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// ReadFromAddrPort is ReadFrom without an allocation.
func (p *PacketConn) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.usable(&p.read.side); err != nil {
			return 0, netip.AddrPort{}, p.opError("read", nil, err)
		}
		if n, from, ok := p.next(b); ok {
			return n, from, nil
		}
		if p.err != nil {
			return 0, netip.AddrPort{}, p.opError("read", nil, p.err)
		}
		n, err := p.read.wait(&p.read.end, p.read.cq, p.read.wcs[:], p.opt.Spin)
		if err != nil {
			p.fail(err)
		}
		p.read.got = p.read.wcs[:n]
	}
}

// next takes the next received datagram.
func (p *PacketConn) next(b []byte) (int, netip.AddrPort, bool) {
	if len(p.read.early) > 0 {
		e := p.read.early[0]
		p.read.early = append(p.read.early[:0], p.read.early[1:]...)
		return copy(b, e.data), e.from, true
	}
	for len(p.read.got) > 0 {
		wc := p.read.got[0]
		p.read.got = p.read.got[1:]
		if n, from, ok := p.take(b, &wc); ok {
			return n, from, true
		}
	}
	return 0, netip.AddrPort{}, false
}

// take copies a received datagram out of its slot and reposts the slot.
func (p *PacketConn) take(b []byte, wc *verbs.WC) (n int, from netip.AddrPort, ok bool) {
	slot := int(wc.ID)
	if wc.Status != verbs.StatusSuccess {
		p.lost(wc.Status)
	} else if wc.ByteLen >= grhSize {
		data := p.slot(slot)[grhSize:wc.ByteLen]
		var h rsocket.Header
		if k := h.Decode(data); k > 0 {
			n, from, ok = copy(b, data[k:]), h.From, true
		}
	}
	if p.err == nil {
		if err := p.postRecv(slot); err != nil {
			p.fail(err)
		}
	}
	return n, from, ok
}

// WriteTo sends a datagram to a *net.UDPAddr. It returns syscall.EMSGSIZE if it is longer than
// MaxPayload.
func (p *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	u, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, p.opError("write", addr, fmt.Errorf("%w: a %T is no *net.UDPAddr", verbs.ErrInvalid, addr))
	}
	return p.WriteToAddrPort(b, u.AddrPort())
}

// WriteToAddrPort is WriteTo without an allocation.
func (p *PacketConn) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	err := p.writeTo(b, to)
	if err != nil {
		return 0, p.opError("write", net.UDPAddrFromAddrPort(to), err)
	}
	return len(b), nil
}

func (p *PacketConn) writeTo(b []byte, to netip.AddrPort) error {
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.writeErr(len(b)); err != nil {
			return err
		}
		if sent, err := p.sendNow(b, to); sent {
			return err
		}
		n, err := p.write.wait(&p.write.end, p.write.cq, p.write.wcs[:], p.opt.Spin)
		if err != nil {
			p.fail(err)
		}
		p.sent(p.write.wcs[:n])
	}
}

// writeErr returns why a datagram of n bytes cannot be sent.
func (p *PacketConn) writeErr(n int) error {
	switch err := p.usable(&p.write.side); {
	case err != nil:
		return err
	case p.err != nil:
		return p.err
	case n > p.MaxPayload():
		return syscall.EMSGSIZE
	}
	return p.failure()
}

// sendNow sends a datagram if there is a slot for it.
func (p *PacketConn) sendNow(b []byte, to netip.AddrPort) (sent bool, err error) {
	peer := p.peers[to]
	if peer == nil || time.Since(peer.seen) > refresh {
		return true, p.sendUDP(append(p.udpHeader(rsocket.UDPData), b...), to)
	}
	if len(p.write.free) > 0 {
		return true, p.send(b, peer)
	}
	return false, nil
}

// sendUDP sends a datagram over UDP, which may have to wait for the socket. writeMu and mu are
// held; mu is released meanwhile.
func (p *PacketConn) sendUDP(b []byte, to netip.AddrPort) error {
	p.write.onUDP = true
	p.udp.SetWriteDeadline(p.write.deadline)
	p.mu.Unlock()
	_, err := p.udp.WriteToUDPAddrPort(b, to)
	p.mu.Lock()
	p.write.onUDP = false
	switch {
	case p.closed:
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrDeadlineExceeded
	}
	p.udp.SetWriteDeadline(time.Time{}) // for serve's answers
	return err
}

// send posts a datagram from a free slot.
func (p *PacketConn) send(b []byte, peer *packetPeer) error {
	slot := p.write.free[len(p.write.free)-1]
	data := rsocket.Header{From: p.local}.Append(p.slot(slot)[:0])
	data = append(data, b...)
	sge := [1]verbs.SGE{p.mr.SGE(slot*slotSize, len(data))}
	wr := verbs.SendWR{ID: uint64(slot), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: sge[:],
		AH: peer.ah, RemoteQPN: peer.qpn, RemoteQKey: cm.UDPQKey}
	if err := p.qp.PostSend(&wr); err != nil {
		return err
	}
	p.write.free = p.write.free[:len(p.write.free)-1]
	p.reclaim() // a device in software has sent it by now
	return p.failure()
}

// SetDeadline sets when ReadFrom and WriteTo give up with os.ErrDeadlineExceeded, also calls that wait already; the
// zero time: never.
func (p *PacketConn) SetDeadline(t time.Time) error {
	return p.setDeadlines(t, &p.read.side, &p.write.side)
}

// SetReadDeadline sets when ReadFrom gives up.
func (p *PacketConn) SetReadDeadline(t time.Time) error { return p.setDeadlines(t, &p.read.side) }

// SetWriteDeadline sets when WriteTo gives up.
func (p *PacketConn) SetWriteDeadline(t time.Time) error { return p.setDeadlines(t, &p.write.side) }

func (p *PacketConn) setDeadlines(t time.Time, sides ...*side) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.opError("set", nil, net.ErrClosed)
	}
	for _, s := range sides {
		if s.setDeadline(t); s == &p.write.side && p.write.onUDP {
			p.udp.SetWriteDeadline(t)
		}
	}
	return nil
}

// Close ends receiving and sending. Pending ReadFrom and WriteTo calls return net.ErrClosed.
func (p *PacketConn) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.opError("close", nil, net.ErrClosed)
	}
	p.closed = true
	p.read.setDeadline(time.Time{})
	p.write.setDeadline(time.Time{})
	p.udp.SetWriteDeadline(time.Now()) // for a WriteTo that waits for the socket
	p.mu.Unlock()
	p.readMu.Lock()
	defer p.readMu.Unlock()
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	if err := p.destroy(); err != nil {
		return p.opError("close", nil, err)
	}
	return nil
}

// destroy frees everything.
func (p *PacketConn) destroy() error {
	errs := []error{p.udp.Close()}
	p.service.Wait()
	for _, peer := range p.peers {
		errs = append(errs, peer.ah.Close())
	}
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	for _, cq := range []*verbs.CQ{p.write.cq, p.read.cq} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if p.mr != nil {
		errs = append(errs, p.mr.Close())
	}
	if p.pd != nil {
		errs = append(errs, p.pd.Close())
	}
	return errors.Join(errs...)
}

func (p *PacketConn) opError(op string, to net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: p.LocalAddr(), Addr: to, Err: netError(err)}
}
