// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/sctp"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// sctpPort is the UDP port of SCTP (RFC 6951).
const sctpPort = 9899

const (
	sctpHeaderLen = 12
	// libraryPort is both ports of associations that pion/sctp dials. The library has one
	// association per connection, and knows no other ports; they are inserted here.
	libraryPort = 5000
	// Chunk types (RFC 9260 section 3.2).
	chunkInit, chunkAbort = 1, 6
	// queuedPackets limits the packets kept for an association that does not read.
	queuedPackets = 1024
)

// sctpKey identifies an association.
type sctpKey struct {
	peer                netip.AddrPort // of UDP, without zone
	peerPort, localPort uint16         // of SCTP
}

// sctpPackets is the connection of one association, carried by UDP. pion/sctp reads and writes its
// packets.
type sctpPackets struct {
	mux    *sctpMux
	key    sctpKey
	dialed bool
	heard  atomic.Int64 // a pollwait.Instant
	assoc  atomic.Pointer[sctp.Association]
	in     chan []byte
	ended  chan struct{}
	end    sync.Once
}

// sctpMux shares a UDP socket between associations.
type sctpMux struct {
	udp     *net.UDPConn
	zone    string                    // of link-local addresses of peers
	accept  func(p *sctpPackets) bool // a peer requests an association; false: there is no listener
	mu      sync.Mutex
	assocs  map[sctpKey]*sctpPackets
	buffers sync.Pool
	done    chan struct{}

	raw     syscall.RawConn
	reading sync.Mutex // keeps packets in their order
	packet  []byte
}

// maxPacket is the longest SCTP packet that is accepted: the size of pion/sctp's buffer.
const maxPacket = 8192

func newSCTPMux(addr netip.Addr, asked func(*sctpPackets) bool) (*sctpMux, error) {
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, sctpPort)))
	if err != nil {
		return nil, err
	}
	forkmark.SetConn(udp)
	udp.SetReadBuffer(4 << 20) // best effort: the system may allow less
	udp.SetWriteBuffer(4 << 20)
	m := &sctpMux{udp: udp, zone: addr.Zone(), accept: asked, assocs: make(map[sctpKey]*sctpPackets),
		done: make(chan struct{}), packet: make([]byte, maxPacket+1)}
	if m.raw, err = udp.SyscallConn(); err != nil {
		udp.Close()
		return nil, err
	}
	m.buffers.New = func() any { return new([maxPacket]byte) }
	go m.receive()
	return m, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sctpSum computes the checksum of a packet as if its checksum field were zero (RFC 9260 section
// 6.8).
func sctpSum(b []byte) uint32 {
	var zero [4]byte
	sum := crc32.Update(0, castagnoli, b[:8])
	sum = crc32.Update(sum, castagnoli, zero[:])
	return crc32.Update(sum, castagnoli, b[sctpHeaderLen:])
}

// take handles one packet.
func (m *sctpMux) take(b []byte, from netip.AddrPort) {
	if len(b) < sctpHeaderLen+4 || len(b) > maxPacket || binary.LittleEndian.Uint32(b[8:]) != sctpSum(b) {
		return
	}
	key := sctpKey{peer: netip.AddrPortFrom(from.Addr().WithZone(""), from.Port()),
		peerPort: binary.BigEndian.Uint16(b), localPort: binary.BigEndian.Uint16(b[2:])}
	m.mu.Lock()
	p := m.assocs[key]
	m.mu.Unlock()
	if p == nil {
		if b[sctpHeaderLen] != chunkInit || len(b) < sctpHeaderLen+8 {
			return // of an association that has ended
		}
		p = m.add(key, false)
		if p == nil || !m.accept(p) {
			if p != nil {
				p.Close()
			}
			m.refuse(b, key)
			return
		}
	}
	p.heard.Store(int64(pollwait.Now()))
	if p.dialed {
		setPorts(b, libraryPort, libraryPort)
	}
	buf := m.buffers.Get().(*[maxPacket]byte)
	select {
	case p.in <- buf[:copy(buf[:], b)]:
	default: // drop the packet, as if lost
		m.buffers.Put(buf)
	}
}

// setPorts changes the ports of a packet.
func setPorts(b []byte, src, dst uint16) {
	binary.BigEndian.PutUint16(b, src)
	binary.BigEndian.PutUint16(b[2:], dst)
	binary.LittleEndian.PutUint32(b[8:], sctpSum(b))
}

// refuse answers an unexpected INIT with an ABORT (RFC 9260 section 8.4).
func (m *sctpMux) refuse(init []byte, key sctpKey) {
	b := make([]byte, sctpHeaderLen, sctpHeaderLen+4)
	copy(b[4:8], init[sctpHeaderLen+4:]) // the tag that it asks for
	b = append(b, chunkAbort, 0, 0, 4)
	setPorts(b, key.localPort, key.peerPort)
	m.send(b, key.peer)
}

// send sends a packet. Losing it is not an error.
func (m *sctpMux) send(b []byte, to netip.AddrPort) {
	m.udp.WriteToUDPAddrPort(b, netip.AddrPortFrom(onLink(to.Addr(), m.zone), to.Port()))
}

// add creates the connection of an association. It returns nil if there is one already.
func (m *sctpMux) add(key sctpKey, dialed bool) *sctpPackets {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assocs[key] != nil {
		return nil
	}
	p := &sctpPackets{mux: m, key: key, dialed: dialed, in: make(chan []byte, queuedPackets),
		ended: make(chan struct{})}
	p.heard.Store(int64(pollwait.Now()))
	m.assocs[key] = p
	return p
}

// dial creates the connection of an association to a peer; local 0 stands for any port.
func (m *sctpMux) dial(local uint16, to netip.AddrPort) *sctpPackets {
	key := sctpKey{peer: netip.AddrPortFrom(to.Addr().WithZone(""), sctpPort), peerPort: to.Port(), localPort: local}
	for range 1 << 14 {
		if local == 0 {
			key.localPort = ephemeral()
		}
		if p := m.add(key, true); p != nil || local != 0 {
			return p
		}
	}
	return nil
}

// ephemeral returns a port of the dynamic range (RFC 6335).
func ephemeral() uint16 { return 49152 + uint16(rand.Uint32N(1<<14)) }

// close closes the socket and all connections.
func (m *sctpMux) close() error {
	err := m.udp.Close()
	<-m.done
	m.mu.Lock()
	all := m.assocs
	m.assocs = map[sctpKey]*sctpPackets{}
	m.mu.Unlock()
	for _, p := range all {
		p.Close()
	}
	return err
}

// each calls f for each connection.
func (m *sctpMux) each(f func(*sctpPackets)) {
	m.mu.Lock()
	all := make([]*sctpPackets, 0, len(m.assocs))
	for _, p := range m.assocs {
		all = append(all, p)
	}
	m.mu.Unlock()
	for _, p := range all {
		f(p)
	}
}

func (p *sctpPackets) Read(b []byte) (int, error) {
	select {
	case pkt := <-p.in:
		n := copy(b, pkt)
		p.mux.buffers.Put((*[maxPacket]byte)(pkt[:maxPacket]))
		return n, nil
	case <-p.ended:
		return 0, net.ErrClosed
	}
}

// Write sends a packet, which it may change.
func (p *sctpPackets) Write(b []byte) (int, error) {
	select {
	case <-p.ended:
		return 0, net.ErrClosed
	default:
	}
	if p.dialed {
		setPorts(b, p.key.localPort, p.key.peerPort)
	}
	p.mux.send(b, p.key.peer)
	return len(b), nil
}

func (p *sctpPackets) Close() error {
	p.end.Do(func() {
		p.mux.mu.Lock()
		if p.mux.assocs[p.key] == p {
			delete(p.mux.assocs, p.key)
		}
		p.mux.mu.Unlock()
		close(p.ended)
	})
	return nil
}

// SetReadDeadline is called only to end reading.
func (p *sctpPackets) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		p.Close()
	}
	return nil
}

func (p *sctpPackets) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *sctpPackets) SetWriteDeadline(time.Time) error { return nil }
func (p *sctpPackets) LocalAddr() net.Addr              { return p.mux.udp.LocalAddr() }
func (p *sctpPackets) RemoteAddr() net.Addr             { return net.UDPAddrFromAddrPort(p.key.peer) }
