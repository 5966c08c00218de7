// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibcm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// ibProtocol is the communication management of InfiniBand and RoCE (IBTA chapter 12) with
// the addresses of the RDMA IP CM service (annex A11): the engine of package ibcm on the
// device's general services interface.
//
// A goroutine receives; the timer's function runs what is due; sending is done by whoever
// gives up the manager's lock.
type ibProtocol struct {
	m         *manager
	gsi       gsi
	engine    *ibcm.Engine
	start     time.Time
	timer     *time.Timer
	deadline  ibcm.Time // what the timer is set to
	listeners map[mad.ServiceID]*ID
	conns     map[mad.CommID]*ID
	watches   map[verbs.GID]*watch
	device    verbs.DeviceAttr
	mtu       verbs.MTU
}

// ibConn is what the protocol knows of an id's connection.
type ibConn struct {
	comm mad.CommID
	live bool // the engine knows it

	watched bool // see watch

	to        verbs.AHAttr // the peer
	qpn       verbs.QPN    // its queue pair
	sqPSN     verbs.PSN    // each side tells the other where to begin
	rqPSN     verbs.PSN
	mtu       verbs.MTU
	ackTime   uint8
	retries   uint8
	rnr       uint8
	responder uint8 // READs and atomics that we answer at once
	initiator uint8 // those that we have in flight
}

func newIBProtocol(m *manager, g gsi) *ibProtocol {
	p := &ibProtocol{m: m, gsi: g, start: time.Now(), listeners: map[mad.ServiceID]*ID{}, conns: map[mad.CommID]*ID{}, watches: map[verbs.GID]*watch{}, mtu: verbs.MTU1024}
	p.device = m.dev.Query()
	if port, err := m.dev.Port(1); err == nil {
		p.mtu = port.ActiveMTU
	}
	c := ibcm.Config{CAGUID: p.device.NodeGUID}
	rand.Read(c.Key[:])
	c.IDBase, c.IDMask = g.IDs()
	p.engine = ibcm.New(c)
	p.timer = time.AfterFunc(time.Hour, p.timeout)
	p.timer.Stop()
	return p
}

func (p *ibProtocol) run() { go p.receive() }

func (p *ibProtocol) now() ibcm.Time { return ibcm.Time(time.Since(p.start)) + 1 }

// receive hands datagrams to the engine until the interface is closed.
func (p *ibProtocol) receive() {
	var b [mad.Size]byte
	for {
		n, from, err := p.gsi.Recv(context.Background(), b[:])
		if err != nil {
			p.m.fail(err)
			return
		}
		p.m.mu.Lock()
		if !p.m.stopped {
			p.engine.HandleMAD(p.now(), from, b[:n])
		}
		p.m.unlock()
	}
}

func (p *ibProtocol) timeout() {
	p.m.mu.Lock()
	p.deadline = 0
	if !p.m.stopped {
		p.engine.HandleTimeout(p.now())
	}
	p.m.unlock()
}

// flush sends the engine's datagrams, tells its events, and sets the timer. What cannot be
// sent is lost, as any datagram may be: the engine repeats it.
func (p *ibProtocol) flush() {
	var out ibcm.Out
	var e ibcm.Event
	for more := true; more; {
		more = false
		for p.engine.NextMAD(&out) {
			p.gsi.Send(out.To, out.MAD[:])
		}
		for p.engine.NextEvent(&e) {
			p.handle(&e)
			more = true
		}
	}
	d := p.engine.Deadline()
	if d == p.deadline {
		return
	}
	if p.deadline = d; d == 0 {
		p.timer.Stop()
		return
	}
	p.timer.Reset(time.Duration(d - p.now()))
}

func (p *ibProtocol) idle() bool { return p.engine.Connections() == 0 }

func (p *ibProtocol) close() {
	p.timer.Stop()
	for _, w := range p.watches {
		w.cancel()
	}
	p.gsi.Close()
}

// service returns the service id of an id's port.
func service(ps PortSpace, port uint16) mad.ServiceID { return mad.IPService(mad.PortSpace(ps), port) }

func (p *ibProtocol) claim(id *ID) error {
	return p.gsi.Claim(uint64(service(id.ps, id.local.Port())), ^uint64(0))
}

func (p *ibProtocol) listen(id *ID, backlog int) error {
	s := service(id.ps, id.local.Port())
	if err := p.engine.Listen(ibcm.ListenParams{Service: s, Backlog: backlog}); err != nil {
		p.gsi.Release(uint64(s))
		return err
	}
	p.listeners[s] = id
	return nil
}

func (p *ibProtocol) unlisten(id *ID) {
	s := service(id.ps, id.local.Port())
	p.engine.Unlisten(p.now(), s, 0)
	p.gsi.Release(uint64(s))
	delete(p.listeners, s)
	for _, c := range p.conns {
		if c.state == requested && c.local.Port() == id.local.Port() && c.ps == id.ps {
			p.forget(c) // the engine has rejected it
			c.state = failed
		}
	}
}

// limits: what the messages have, less the IP header (IBTA 12.6, A11.2.3).
func (p *ibProtocol) limits(id *ID) (connect, accept, reject int) {
	if id.ps.datagrams() {
		return MaxConnectDataUD, MaxAcceptDataUD, MaxAcceptDataUD
	}
	return MaxConnectData, MaxAcceptData, MaxRejectData
}

// conn returns the id's connection.
func (p *ibProtocol) conn(id *ID) *ibConn {
	if id.ib == nil {
		id.ib = &ibConn{rqPSN: randomPSN()}
	}
	return id.ib
}

func randomPSN() verbs.PSN {
	var b [4]byte
	rand.Read(b[:])
	return verbs.PSN(binary.NativeEndian.Uint32(b[:]) & 0xffffff)
}

// depth brings a wish down to what the device and the peer can.
func depth(wish uint8, device int, peer uint8) uint8 {
	return min(wish, uint8(min(device, 0xff)), peer)
}

func (p *ibProtocol) connect(id *ID, param *ConnParam) error {
	header := mad.NewIPAddress(id.local, id.peer.Addr())
	private := append(header.Append(make([]byte, 0, mad.SIDRREQPrivateLen)), param.PrivateData...)
	c := p.conn(id)
	c.to = verbs.AHAttr{DGID: ib.GIDFromAddr(id.peer.Addr()), TrafficClass: id.tos}
	s := service(id.ps, id.peer.Port())
	var err error
	if id.ps.datagrams() {
		c.comm, err = p.engine.Resolve(p.now(), &ibcm.ResolveParams{To: c.to, Service: s, PrivateData: private})
	} else {
		c.mtu, c.ackTime, c.retries = p.mtu, id.ackTimeout, min(param.RetryCount, 7)
		if c.ackTime == 0 {
			c.ackTime = DefaultAckTimeout
		}
		c.responder = depth(param.ResponderResources, p.device.MaxQPRdAtomic, Unlimited)
		c.initiator = depth(param.InitiatorDepth, p.device.MaxQPInitRdAtom, Unlimited)
		q := ibcm.ConnectParams{To: c.to, LocalGID: ib.GIDFromAddr(id.local.Addr()), Service: s, QPN: param.QPNum, SRQ: param.SRQ,
			StartingPSN: c.rqPSN, PathMTU: c.mtu, ResponderResources: c.responder, InitiatorDepth: c.initiator,
			RetryCount: c.retries, RNRRetryCount: min(param.RNRRetryCount, 7), FlowControl: param.FlowControl,
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
		c.comm, err = p.engine.Connect(p.now(), &q)
	}
	if err != nil {
		return err
	}
	c.live = true
	p.conns[c.comm] = id
	p.awaits(id)
	return nil
}

func (p *ibProtocol) accept(id *ID, param *ConnParam) error {
	c := id.ib
	if id.ps.datagrams() {
		s := ibcm.ServiceParams{QPN: param.QPNum, QKey: UDPQKey, PrivateData: param.PrivateData}
		if id.qp != nil {
			s.QPN = id.qp.Num()
		}
		err := p.engine.Serve(p.now(), c.comm, &s)
		if err == nil {
			p.forget(id)
		}
		return err
	}
	if id.ackTimeout != 0 {
		c.ackTime = id.ackTimeout
	}
	c.responder = depth(param.ResponderResources, p.device.MaxQPRdAtomic, c.responder)
	c.initiator = depth(param.InitiatorDepth, p.device.MaxQPInitRdAtom, c.initiator)
	a := ibcm.AcceptParams{QPN: param.QPNum, SRQ: param.SRQ, StartingPSN: c.rqPSN, ResponderResources: c.responder,
		InitiatorDepth: c.initiator, RNRRetryCount: min(param.RNRRetryCount, 7), FlowControl: param.FlowControl,
		PrivateData: param.PrivateData}
	if id.qp != nil {
		a.QPN, a.SRQ = id.qp.Num(), id.srq
		if err := id.raise(id.qp, verbs.RTR, verbs.RTS); err != nil {
			return err
		}
	}
	return p.engine.Accept(p.now(), c.comm, &a)
}

func (p *ibProtocol) reject(id *ID, private []byte) error {
	err := p.refuse(id, mad.RejConsumer, private)
	if err == nil {
		p.forget(id)
	}
	return err
}

// refuse answers a request or a reply with a reason.
func (p *ibProtocol) refuse(id *ID, why mad.Reason, private []byte) error {
	if id.ps.datagrams() {
		return p.engine.Serve(p.now(), id.ib.comm, &ibcm.ServiceParams{Status: mad.SIDRReject, PrivateData: private})
	}
	return p.engine.Reject(p.now(), id.ib.comm, &ibcm.RejectParams{Reason: why, PrivateData: private})
}

func (p *ibProtocol) ready(id *ID) error { return p.engine.Ready(p.now(), id.ib.comm, nil) }

func (p *ibProtocol) established(id *ID) error { return p.engine.Established(p.now(), id.ib.comm) }

func (p *ibProtocol) disconnect(id *ID) error { return p.engine.Disconnect(p.now(), id.ib.comm, nil) }

func (p *ibProtocol) release(id *ID) {
	if id.ib != nil && id.ib.live {
		p.engine.Release(p.now(), id.ib.comm)
		p.forget(id)
	}
}

// forget is called when the engine no longer knows a connection.
func (p *ibProtocol) forget(id *ID) {
	if id.ib.live {
		id.ib.live = false
		delete(p.conns, id.ib.comm)
		p.answered(id)
	}
}

func (p *ibProtocol) connects(t verbs.QPType) bool { return t >= verbs.RC && t <= verbs.XRCTgt }

// attr: what each state needs (IBTA 12.9.8, 11.2.5.2). Of XRC queue pairs the initiator has only
// what requests need, the target only what answers need (annex A14).
func (p *ibProtocol) attr(id *ID, next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	c := p.conn(id)
	a := verbs.QPAttr{State: next}
	reliable := id.qpType != verbs.UC
	asks, answers := reliable && id.qpType != verbs.XRCTgt, reliable && id.qpType != verbs.XRCIni
	switch next {
	case verbs.Init:
		a.Port = 1
		a.Access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal | verbs.FlushPersistent
		return a, verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess, nil
	case verbs.RTR:
		a.AH, a.PathMTU, a.DestQPN, a.RQPSN = c.to, c.mtu, c.qpn, c.rqPSN
		m := verbs.MaskState | verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN
		if answers {
			a.MaxDestRdAtomic, a.MinRNRTimer = c.responder, minRNRTimer
			m |= verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
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
		m |= verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic
	}
	return a, m, nil
}

// minRNRTimer is what a peer waits that met no receive: 0.64 ms (IBTA 9.7.5.2.8). The
// message does not carry it.
const minRNRTimer = 12
