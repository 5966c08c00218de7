// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
)

const (
	// aliveInterval is the time between an end's alive messages, and between its attempts to join.
	aliveInterval = 250 * time.Millisecond
	// peerTimeout is how long the other end may be silent before the link goes down.
	peerTimeout = 3 * time.Second
	// maxCables limits the cables of one socket.
	maxCables = 1024
	// socketBuffer is the size of the socket's buffers in bytes, for bursts.
	socketBuffer = 4 << 20
)

// cableSocket is a UDP socket and the cables that it carries.
type cableSocket struct {
	f      *Fabric
	sock   *netio.Socket
	secret [32]byte // authenticates challenges
	host   bool     // accepts hellos

	receiving   sync.Mutex
	in          incoming
	driven      atomic.Bool   // a device receives
	readerEnded chan struct{} // the goroutine that reads has ended

	mu     sync.Mutex
	cables map[uint64]*Cable // by the token of this end
	closed bool
}

// Cable is the local end of a cable to a fabric on another host.
type Cable struct {
	socket *cableSocket
	local  End
	far    End
	joins  bool // this end has joined the other
	stays  bool // it joins again when the other end pulls the cable: it is an adapter's
	ring   chan struct{}
	done   chan struct{}
	first  chan error // of capacity 1: the result of the first join
	once   sync.Once
	outgoingFrames

	// mu guards the fields that follow. It is taken before the fabric's lock.
	mu        sync.Mutex
	err       error
	refused   error // why the other end refuses a hello
	remote    *fabric.Remote
	token     uint64 // of this end
	peer      netip.AddrPort
	peerToken uint64 // 0: not joined
	challenge [challengeLen]byte
	width     node.Width // of the other end
	speed     node.Speed
	lastHeard time.Time
	lastSent  time.Time // when hello or alive was sent last
	epoch     uint32    // of this end's link; 0: the link must stay down
	upEpoch   uint32    // the last epoch in which the link came up
	lastEpoch uint32    // the highest epoch used so far
	peerEpoch uint32
}

func newToken() uint64 {
	var b [8]byte
	crand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) | 1
}

func (f *Fabric) newWire(address string, host bool) (*cableSocket, error) {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	sock, err := listenUDP(a.AddrPort())
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	w := &cableSocket{f: f, sock: sock, host: host, cables: make(map[uint64]*Cable), readerEnded: make(chan struct{})}
	w.in = incoming{socket: w, got: make([]netio.Datagrams, sock.Features().Batch)}
	crand.Read(w.secret[:])
	go w.read()
	return w, nil
}

// listenUDP opens the socket at an address. The wildcard address is that of both families, where the host has both.
func listenUDP(at netip.AddrPort) (*netio.Socket, error) {
	o := netio.Options{RecvBuffer: socketBuffer, SendBuffer: socketBuffer, DualStack: true, Fragments: true}
	if ip := at.Addr(); ip.IsValid() && !ip.IsUnspecified() {
		return netio.Listen(at, o)
	}
	sock, err := netio.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port()), o)
	if err != nil {
		sock, err = netio.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), o)
	}
	return sock, err
}

// Listen lets fabrics on other hosts join this one with cables, until ctx ends: see [Fabric.Join]. address is its own
// address and port, such as "192.0.2.1:7470"; with port 0 the system chooses one. Listen returns the address. Any host
// that reaches it can join any port that has no cable: there is no authentication, and frames are not encrypted. A host
// off the path between two others cannot put frames into their cable.
func (f *Fabric) Listen(ctx context.Context, address string) (net.Addr, error) {
	w, err := f.newWire(address, true)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, w.close)
	return net.UDPAddrFromAddrPort(w.sock.LocalAddr()), nil
}

// joinTimeout is how long a host has to answer the first hello.
const joinTimeout = 10 * time.Second

// Join puts a cable between a port here that has none and a port of the fabric that listens at an address on
// another host. It returns when the other end has answered. If the other end vanishes later, the link goes down, and
// the cable is joined again when the other end is back; the host's name is looked up anew. The cable stays until ctx
// ends, it is closed, or pulled at either end.
func (f *Fabric) Join(ctx context.Context, address string, local, far End) (*Cable, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	if far.Port < 1 || far.Port > 254 || len(far.Node) == 0 || len(far.Node) > 255 {
		return nil, fmt.Errorf("infiniband: %v is no end of a cable: it takes the name of a node and the number of a port, from 1 to 254", far)
	}
	at := to.AddrPort()
	c, err := f.join(address, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), local, far, false)
	if err != nil {
		return nil, err
	}
	ctx2, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	select {
	case err = <-c.first:
	case <-c.done:
		err = c.Err()
	case <-ctx2.Done():
		if err = ctx.Err(); err == nil {
			err = fmt.Errorf("infiniband: nobody answers at %v within %v: is a fabric listening there?", to,
				joinTimeout)
		}
	}
	if err != nil {
		c.end(err, true)
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// join starts a cable to the fabric at an address, which is peer now; the zero AddrPort: that is not known yet.
func (f *Fabric) join(address string, peer netip.AddrPort, local, far End, stays bool) (*Cable, error) {
	any := ":0"
	if peer.Addr().IsLoopback() {
		any = netip.AddrPortFrom(peer.Addr(), 0).String()
	}
	w, err := f.newWire(any, false)
	if err != nil {
		return nil, err
	}
	c := newCable(w, local, far, peer, newToken())
	c.joins, c.stays = true, stays
	text := fmt.Sprintf("%v at %v", far, address)
	if far == (End{}) {
		text = address
	}
	if err := w.start(c, text); err != nil {
		w.close()
		return nil, err
	}
	if named(address) {
		go c.seek(address)
	}
	return c, nil
}

func newCable(w *cableSocket, local, far End, peer netip.AddrPort, token uint64) *Cable {
	return &Cable{socket: w, local: local, far: far, peer: peer, token: token, ring: make(chan struct{}, 1),
		done:  make(chan struct{}),
		first: make(chan error, 1), outgoingFrames: outgoingFrames{train: w.sock.NewTrain()}, lastHeard: time.Now()}
}

// start plugs a cable into its port.
func (w *cableSocket) start(c *Cable, far string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return net.ErrClosed
	}
	if len(w.cables) >= maxCables {
		return fmt.Errorf("infiniband: %d cables are joined already", maxCables)
	}
	r, err := w.f.running.Remote(fabric.End(c.local), far, cableLine{c})
	if err != nil {
		return fmt.Errorf("infiniband: %w", err)
	}
	c.remote = r
	w.cables[c.token] = c
	go c.run()
	return nil
}

// close closes the socket and its cables.
func (w *cableSocket) close() {
	w.mu.Lock()
	w.closed = true
	var all []*Cable
	for _, c := range w.cables {
		all = append(all, c)
	}
	w.mu.Unlock()
	for _, c := range all {
		c.end(net.ErrClosed, false)
	}
	w.sock.Close()
}

// remove removes a cable, and closes a socket that was for it alone.
func (w *cableSocket) remove(c *Cable) {
	w.mu.Lock()
	delete(w.cables, c.token)
	w.mu.Unlock()
	if !w.host {
		w.sock.Close()
	}
}

// handle handles a datagram that carries no frame.
func (w *cableSocket) handle(d *datagram, from netip.AddrPort) {
	if d.kind == datagramHello {
		if w.host {
			w.hello(d, from)
		}
		return
	}
	if c := w.find(d.token); c != nil {
		c.handle(d, from)
	}
}

// find returns the cable whose end here has a token; nil: there is none.
func (w *cableSocket) find(token uint64) *Cable {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cables[token]
}

func (w *cableSocket) send(d *datagram, to netip.AddrPort) {
	b := d.append(nil)
	var t netio.Train
	t.Reset(to)
	t.Begin(len(b))
	t.Add(b)
	w.sock.Send(&t) // a lost datagram is repeated
}

func (w *cableSocket) refuse(d *datagram, to netip.AddrPort, why string) {
	w.send(&datagram{kind: datagramRefused, token: d.token, why: why}, to)
}

// hello answers a hello. It keeps no state for a peer that has not proved that it receives at its address.
func (w *cableSocket) hello(d *datagram, from netip.AddrPort) {
	mac := hmac.New(sha256.New, w.secret[:])
	fmt.Fprint(mac, from)
	binary.Write(mac, binary.BigEndian, d.from)
	want := [challengeLen]byte(mac.Sum(nil))
	if !hmac.Equal(want[:], d.challenge[:]) {
		w.send(&datagram{kind: datagramChallenge, token: d.from, challenge: want}, from)
		return
	}
	d.token = d.from
	w.mu.Lock()
	var c *Cable
	for _, o := range w.cables {
		if o.peer == from && o.peerTokenIs(d.from) {
			c = o // the welcome was lost
		}
	}
	w.mu.Unlock()
	if c == nil {
		local, name := End{Node: d.to, Port: int(d.port)}, ""
		var err error
		if local == (End{}) {
			local, name, err = w.f.place(d.own, from.Addr())
		}
		c = newCable(w, local, End{}, from, newToken())
		c.peerToken, c.width, c.speed = d.from, d.width, d.speed
		if err == nil {
			err = w.start(c, fmt.Sprintf("%s at %v", printable(d.own), from))
		}
		if err != nil {
			w.refuse(d, from, err.Error())
			return
		}
		w.f.occupy(name, c)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	width, speed := c.remote.Enabled()
	w.send(&datagram{kind: datagramWelcome, token: d.from, from: c.token, width: width, speed: speed}, from)
	c.Wake()
}

func (c *Cable) peerTokenIs(t uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerToken == t
}

// Local returns the local port.
func (c *Cable) Local() End { return c.local }

// Done is closed when the cable has ended. Err says why.
func (c *Cable) Done() <-chan struct{} { return c.done }

// Err returns why the cable has ended; nil: it has not.
func (c *Cable) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// refusal returns why the other end refuses this one; nil: it does not.
func (c *Cable) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Close pulls the cable.
func (c *Cable) Close() error {
	c.end(net.ErrClosed, true)
	return nil
}

// Wake is called by the fabric, when there may be frames to send.
func (c *Cable) Wake() {
	select {
	case c.ring <- struct{}{}:
	default:
	}
}

// end pulls the cable out of its port, and sends bye to the other end.
func (c *Cable) end(why error, pulled bool) {
	c.once.Do(func() {
		c.remote.Close()
		c.socket.f.leave(c, false)
		c.mu.Lock()
		c.err = why
		if c.peerToken != 0 {
			c.socket.send(&datagram{kind: datagramBye, token: c.peerToken, pulled: pulled}, c.peer)
		}
		c.mu.Unlock()
		c.socket.remove(c)
		close(c.done)
	})
}
