// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibcm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// ibConn is the endpoint of an id.
type ibConn struct {
	*ibProtocol
	id *ID

	commID mad.CommID
	live   bool // the engine has a connection for it

	watched bool // see watch

	host      verbs.AHAttr // the peer's queue pair 1
	to        verbs.AHAttr // the peer's queue pair to connect to
	qpn       verbs.QPN    // its queue pair
	pkey      verbs.PKey   // of the path; 0: the default partition
	sqPSN     verbs.PSN    // each side tells the other its starting PSN
	rqPSN     verbs.PSN
	mtu       verbs.MTU
	ackTime   uint8
	retries   uint8
	rnr       uint8
	peerRNR   uint8 // RNR retries that we ask of the peer, from Connect or Accept
	responder uint8 // READs and atomics that we answer at once
	initiator uint8 // READs and atomics that we have in flight
}

// newEndpoint returns the endpoint of an id that the program has created.
func (p *ibProtocol) newEndpoint(id *ID) endpoint {
	return &ibConn{ibProtocol: p, id: id, rqPSN: randomPSN()}
}

// resolveAddr: over IP the GID of a port is its address (annex A17.4.1), and the system knows the
// route. The device may have to ask where the peer is.
func (c *ibConn) resolveAddr(zone string) (query, error) {
	if c.subnet != nil {
		return c.subnet.resolveAddr(c)
	}
	if err := c.id.checkRoute(zone); err != nil {
		return nil, err
	}
	return c.id.locate(), nil
}

// resolveRoute: over IP there is one path between two addresses.
func (c *ibConn) resolveRoute() (query, error) {
	if c.subnet != nil {
		return func(ctx context.Context) error { return c.subnet.resolveRoute(ctx, c) }, nil
	}
	c.host = c.id.vectorTo(c.id.peer.Addr())
	c.to, c.mtu = c.host, c.ibProtocol.mtu()
	return nil, nil
}

// vectorTo is an address vector from the id's address, over IP.
func (id *ID) vectorTo(to netip.Addr) verbs.AHAttr {
	row, _ := id.m.row(id.local.Addr())
	return verbs.AHAttr{DGID: ib.GIDFromAddr(to), SGIDIndex: row, TrafficClass: id.tos}
}

// setTOS is called before the first datagram.
func (c *ibConn) setTOS() { c.host.TrafficClass, c.to.TrafficClass = c.id.tos, c.id.tos }

// join: over IP the GID of a group is its address, and there is no subnet administrator to ask (annex
// A17.9).
func (c *ibConn) join(g *membership) (query, error) {
	if c.subnet != nil {
		return func(ctx context.Context) error { return c.subnet.join(ctx, g) }, nil
	}
	g.to, g.qkey = c.id.vectorTo(g.group), UDPQKey
	if _, typ := c.id.m.row(c.id.local.Addr()); typ == verbs.GIDRoCEv1 {
		g.to.DGID = groupOfRoCEv1(g.group)
	}
	return nil, nil
}

// groupOfRoCEv1 returns the GID of a group in RoCE v1, whose packets have no IP header: where it is an
// IPv4 address, that mapped into a multicast GID of global scope, as librdmacm's peers have it.
func groupOfRoCEv1(group netip.Addr) verbs.GID {
	g := ib.GIDFromAddr(group)
	if group.Is4() {
		g[0], g[1] = 0xff, 0x0e
	}
	return g
}

func (c *ibConn) leave(g *membership) {
	if c.subnet != nil {
		c.subnet.leave(g)
	}
}

// service returns the service id of the id's own port.
func (c *ibConn) service() mad.ServiceID { return service(c.id.ps, c.id.local.Port()) }

// service returns the service id of a port.
func service(ps PortSpace, port uint16) mad.ServiceID { return mad.IPService(mad.PortSpace(ps), port) }

func (c *ibConn) claim() error { return c.agent.Claim(uint64(c.service()), ^uint64(0)) }

// releaseClaim releases the port among the processes of the address.
func (c *ibConn) releaseClaim() { c.agent.Release(uint64(c.service())) }

func (c *ibConn) listen(backlog int) error {
	s := c.service()
	if err := c.engine.Listen(ibcm.ListenParams{Service: s, Backlog: backlog}); err != nil {
		c.releaseClaim()
		return err
	}
	c.listeners[s] = c.id
	if c.subnet != nil {
		c.subnet.announce()
	}
	return nil
}

func (c *ibConn) unlisten() {
	s := c.service()
	c.engine.Unlisten(c.now(), s, 0)
	c.releaseClaim()
	delete(c.listeners, s)
	for _, r := range c.conns {
		if r.id.state == requested && r.service() == s {
			r.forget() // the engine has rejected it
			r.id.orphaned()
		}
	}
}

// limits: the space for private data in each message (IBTA 12.6), less the IP header (A11.2.3).
func (c *ibConn) limits() (connect, accept, reject int) {
	if c.id.ps.datagrams() {
		return MaxConnectDataUD, MaxAcceptDataUD, MaxAcceptDataUD
	}
	return MaxConnectData, MaxAcceptData, MaxRejectData
}

func randomPSN() verbs.PSN {
	var b [4]byte
	rand.Read(b[:])
	return verbs.PSN(binary.NativeEndian.Uint32(b[:]) & 0xffffff)
}

// depth limits the depth that the program requests to the device's and the peer's limits.
func depth(want uint8, device int, peer uint8) uint8 {
	return min(want, uint8(min(device, 0xff)), peer)
}

func (c *ibConn) connect(param *ConnParam) error {
	id := c.id
	header := mad.NewIPAddress(id.local, id.peer.Addr())
	private := append(header.Append(make([]byte, 0, mad.SIDRREQPrivateLen)), param.PrivateData...)
	c.setTOS()
	s := service(id.ps, id.peer.Port())
	var err error
	if id.ps.datagrams() {
		c.commID, err = c.engine.Resolve(c.now(),
			&ibcm.ResolveParams{To: c.host, PKey: c.pkey, Service: s, PrivateData: private})
	} else {
		c.ackTime, c.retries, c.peerRNR = id.ackTimeout, min(param.RetryCount, 7), min(param.RNRRetryCount, endlessRNR)
		if c.ackTime == 0 {
			c.ackTime = DefaultAckTimeout
		}
		c.responder = depth(param.ResponderResources, c.device.MaxQPRdAtomic, Unlimited)
		c.initiator = depth(param.InitiatorDepth, c.device.MaxQPInitRdAtomic, Unlimited)
		q := ibcm.ConnectParams{To: c.host, LocalGID: c.gid(), LocalLID: c.lid(), PKey: c.pkey, Service: s,
			QPN: param.QPNum, SRQ: param.SRQ, StartingPSN: c.rqPSN, PathMTU: c.mtu, ResponderResources: c.responder,
			InitiatorDepth: c.initiator,
			RetryCount:     c.retries, RNRRetryCount: c.peerRNR, FlowControl: param.FlowControl,
			AckTimeout: mad.Timeout(c.ackTime), PrivateData: private}
		if id.qp != nil {
			q.QPN, q.SRQ = id.qp.Num(), id.srq
		}
		switch id.qpType {
		case verbs.UC:
			q.Transport = mad.TransportUC
		case verbs.XRCIni:
			q.Transport, q.ExtendedTransport = mad.TransportExtended, mad.ExtendedXRC
		}
		c.commID, err = c.engine.Connect(c.now(), &q)
	}
	if err != nil {
		return err
	}
	c.live = true
	c.conns[c.commID] = c
	c.watchPeer()
	return nil
}

func (c *ibConn) accept(param *ConnParam) error {
	id := c.id
	if id.ps.datagrams() {
		s := ibcm.ServiceParams{QPN: param.QPNum, QKey: UDPQKey, PrivateData: param.PrivateData}
		if id.qp != nil {
			s.QPN = id.qp.Num()
		}
		err := c.engine.Serve(c.now(), c.commID, &s)
		if err == nil {
			c.forget()
		}
		return err
	}
	if id.ackTimeout != 0 {
		c.ackTime = id.ackTimeout
	}
	c.responder = depth(param.ResponderResources, c.device.MaxQPRdAtomic, c.responder)
	c.initiator = depth(param.InitiatorDepth, c.device.MaxQPInitRdAtomic, c.initiator)
	c.peerRNR = min(param.RNRRetryCount, endlessRNR)
	a := ibcm.AcceptParams{QPN: param.QPNum, SRQ: param.SRQ, StartingPSN: c.rqPSN, ResponderResources: c.responder,
		InitiatorDepth: c.initiator, RNRRetryCount: c.peerRNR, FlowControl: param.FlowControl,
		PrivateData: param.PrivateData}
	if id.qp != nil {
		a.QPN, a.SRQ = id.qp.Num(), id.srq
		if err := id.moveQP(id.qp, verbs.StateRTR, verbs.StateRTS); err != nil {
			return err
		}
	}
	return c.engine.Accept(c.now(), c.commID, &a)
}

func (c *ibConn) reject(private []byte) error {
	err := c.refuse(mad.RejConsumer, private)
	if err == nil {
		c.forget()
	}
	return err
}

// refuse answers a request or a reply with a REJ.
func (c *ibConn) refuse(why mad.Reason, private []byte) error {
	if c.id.ps.datagrams() {
		return c.engine.Serve(c.now(), c.commID, &ibcm.ServiceParams{Status: mad.SIDRReject, PrivateData: private})
	}
	return c.engine.Reject(c.now(), c.commID, &ibcm.RejectParams{Reason: why, PrivateData: private})
}

func (c *ibConn) ready() error { return c.engine.Ready(c.now(), c.commID, nil) }

func (c *ibConn) established() error { return c.engine.Established(c.now(), c.commID) }

func (c *ibConn) disconnect() error { return c.engine.Disconnect(c.now(), c.commID, nil) }

func (c *ibConn) agreed() ConnParam { return c.connParam(nil) }

// broken ends a connection whose queue pair has failed. A peer that did not even acknowledge a packet cannot
// be reached. Any other failure shows that the peer is there: it has our REP, and its RTU is lost, or still
// comes (IBTA 12.9.7.2).
func (c *ibConn) broken() {
	id := c.id
	if id.state != accepting && id.state != established {
		return
	}
	if f := id.qp.Failure(); id.unconfirmed && f != nil && f.Status == verbs.StatusRetryExceeded {
		c.release()
		id.end(failed, &Event{Type: Unreachable,
			Err: opErr("accept", ErrTimeout, "%v does not acknowledge what was sent", id.peer)})
		return
	}
	c.disconnect() // fails if the peer was first
	id.over()
}

func (c *ibConn) release() {
	if c.live {
		c.engine.Release(c.now(), c.commID)
		c.forget()
	}
}

// forget is called when the engine has dropped a connection.
func (c *ibConn) forget() {
	if c.live {
		c.live = false
		delete(c.conns, c.commID)
		c.answered()
	}
}

// pkeyIndex returns the row of the port's partition table that the path is of.
func (c *ibConn) pkeyIndex() uint16 {
	if c.pkey == 0 {
		return 0
	}
	keys, err := c.m.drv.PKeys(1)
	if err != nil {
		return 0 // the device has been closed
	}
	for i, k := range keys {
		if k.Base() == c.pkey.Base() {
			return uint16(i)
		}
	}
	return 0 // the port has left the partition: nothing will arrive
}

// attr returns the attributes that each state requires (IBTA 12.9.8, 11.2.5.2). An XRC initiator has only the
// requester's attributes, an XRC target only the responder's (annex A14).
func (c *ibConn) attr(next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	a := verbs.QPAttr{State: next}
	t := c.id.qpType
	reliable := t != verbs.UC
	asks, answers := reliable && t != verbs.XRCTgt, reliable && t != verbs.XRCIni
	switch next {
	case verbs.StateInit:
		a.Port, a.PKeyIndex = 1, c.pkeyIndex()
		a.Access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal |
			verbs.FlushPersistent
		return a, verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess, nil
	case verbs.StateRTR:
		a.AH, a.PathMTU, a.DestQPN, a.RQPSN = c.to, c.mtu, c.qpn, c.rqPSN
		m := verbs.MaskState | verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN
		if answers {
			a.MaxDestRdAtomic, a.MinRNRTimer = c.responder, c.minRNRTimer()
			m |= verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
		}
		if a.PKeyIndex = c.pkeyIndex(); a.PKeyIndex != 0 { // the path was not known when the queue pair was initialized
			m |= verbs.MaskPKeyIndex
		}
		return a, m, nil
	}
	a.SQPSN = c.sqPSN
	m := verbs.MaskState | verbs.MaskSQPSN
	if reliable {
		a.Timeout = c.ackTime
		m |= verbs.MaskTimeout
	}
	if asks {
		a.RetryCount, a.RNRRetry, a.MaxRdAtomic = c.retries, c.rnr, c.initiator
		if c.id.rnrRetry != nil {
			a.RNRRetry = *c.id.rnrRetry
		}
		m |= verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic
	}
	return a, m, nil
}

// endlessRNR RNR retries have no end (IBTA 9.7.5.2.8).
const endlessRNR = 7

// minRNRTimer returns the code of how long a peer waits that found no receive (IBTA 9.7.5.2.8). The messages do not
// carry it. Retries that end have to last until a busy program comes to post a receive, so each waits longest, as with
// Linux's connection manager, also before it is known how many there are. A peer that retries without end may look
// again soon.
func (c *ibConn) minRNRTimer() uint8 {
	if c.peerRNR == endlessRNR {
		return 12 // 0.64 ms
	}
	return 0 // 655.36 ms
}
