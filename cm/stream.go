// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// streamProtocol connects queue pairs by streams: iWARP, where a connection is a TCP connection
// that begins with the set-up of MPA (RFC 5044, RFC 6581), and shared memory, which has the same
// set-up on a local socket.
type streamProtocol struct {
	m         *manager
	drv       driver.StreamDevice
	services  driver.ServiceDevice // nil: requests for datagram services are streams, too
	device    verbs.DeviceAttr
	listeners map[*streamConn]struct{}
	requests  map[driver.Stream]*ID // requests that the program has not answered
}

// streamConn is the endpoint of an id.
type streamConn struct {
	*streamProtocol
	id       *ID
	stream   driver.Stream         // nil: neither connected nor requested
	listener driver.StreamListener // nil: does not listen
	asked    *ID                   // the listener of a request
	terms    ConnParam             // agreed on with the peer
	early    bool                  // the queue pair failed before the stream's first event was here
}

func newStreamProtocol(m *manager, drv driver.StreamDevice) *streamProtocol {
	services, _ := drv.(driver.ServiceDevice)
	return &streamProtocol{m: m, drv: drv, services: services, device: m.drv.QueryDevice(),
		listeners: map[*streamConn]struct{}{}, requests: map[driver.Stream]*ID{}}
}

func (p *streamProtocol) newEndpoint(id *ID) endpoint { return &streamConn{streamProtocol: p, id: id} }

// run waits for the end of the device.
func (p *streamProtocol) run() {
	go func() {
		<-p.drv.StreamsDone()
		p.m.fail(opErr("get_cm_event", verbs.ErrClosed, "the device is closed"))
	}()
}

// resolveAddr: the system knows the route to an address.
func (c *streamConn) resolveAddr(zone string) (query, error) { return nil, c.id.checkRoute(zone) }

func (c *streamConn) resolveRoute() (query, error) { return nil, nil }

// claim does nothing: listen finds out whether the system's port is free.
func (c *streamConn) claim() error { return nil }

func (c *streamConn) listen(backlog int) error {
	id := c.id
	if id.ps.datagrams() && !c.datagrams() {
		return noDatagrams("listen")
	}
	listen := c.drv.ListenStream
	if id.ps.datagrams() && c.services != nil {
		listen = c.services.ListenService
	}
	l, err := listen(id.local, backlog, func(e driver.StreamEvent) { c.requestArrived(e) })
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return verbs.ErrBusy
	case err != nil:
		return opErr("listen", err, "%v", id.local)
	}
	c.listener = l
	c.listeners[c] = struct{}{}
	return nil
}

func noDatagrams(op string) error {
	return opErr(op, verbs.ErrNotSupported,
		"the device connects queue pairs by streams, and has no datagrams: use port space TCP")
}

func (c *streamConn) unlisten() {
	if c.listener != nil {
		c.listener.Close()
		c.listener = nil
		delete(c.listeners, c)
		for s, id := range c.requests {
			if id.ep.(*streamConn).asked == c.id {
				delete(c.requests, s)
				s.Reject(nil) // fails where closing the listener has done so
				id.orphaned()
			}
		}
	}
}

// requestArrived creates the id of a connection that a peer requests, or ends it if the request is
// withdrawn.
func (c *streamConn) requestArrived(e driver.StreamEvent) {
	p, listener := c.streamProtocol, c.id
	p.m.mu.Lock()
	defer p.m.unlock()
	if e.Type != driver.StreamRequested {
		p.withdrawn(e.Stream, e.Err)
		return
	}
	if p.m.stopped || listener.state != listening {
		e.Stream.Close()
		return
	}
	private, service := p.serviceRequest(&e)
	if service != listener.ps.datagrams() {
		e.Stream.Reject(nil) // no id offers that here
		return
	}
	if rejects(p.m.drv, faults.Received, e.Stream.PeerAddr().Addr()) != 0 {
		e.Stream.Reject(nil)
		return
	}
	id := listener.request()
	id.local, id.peer = listener.local, e.Stream.PeerAddr()
	c = &streamConn{streamProtocol: p, id: id, stream: e.Stream, asked: listener}
	p.m.add(id, c)
	p.requests[e.Stream] = id
	event := &Event{Type: ConnectRequest, ID: id, Listener: listener}
	if service {
		event.UD.PrivateData = private
	} else {
		event.Conn = c.connParamOf(&e.Param)
		c.terms = event.Conn
		c.terms.PrivateData = nil
	}
	if !listener.deliver(event) {
		id.close() // the program does not have it
	}
}

// withdrawn ends a request that was not answered.
func (p *streamProtocol) withdrawn(s driver.Stream, why error) {
	id := p.requests[s]
	delete(p.requests, s)
	if id != nil && id.state == requested && !p.m.stopped {
		id.end(failed, &Event{Type: Unreachable,
			Err: opErr("connect", ErrTimeout, "%v does not wait for an answer any more: %v", id.peer, why)})
	}
}

// connParamOf converts the peer's parameters to the program's form.
func (p *streamProtocol) connParamOf(of *driver.StreamParam) ConnParam {
	c := ConnParam{PrivateData: of.PrivateData, ResponderResources: uint8(min(of.IRD, Unlimited)),
		InitiatorDepth: uint8(min(of.ORD, Unlimited)),
		RetryCount:     7, RNRRetryCount: endlessRNR}
	if p.device.Caps&verbs.CapRNRNak != 0 {
		c.RNRRetryCount -= of.FewerRNR
	}
	return c
}

// param converts our parameters to the stream's form.
func (c *streamConn) param(p *ConnParam) driver.StreamParam {
	param := driver.StreamParam{PrivateData: p.PrivateData, TOS: c.id.tos, OwnRNR: c.id.rnrRetry,
		IRD: uint16(depth(p.ResponderResources, c.device.MaxQPRdAtomic, Unlimited)),
		ORD: uint16(depth(p.InitiatorDepth, c.device.MaxQPInitRdAtomic, Unlimited))}
	if c.device.Caps&verbs.CapRNRNak != 0 {
		param.FewerRNR = endlessRNR - min(p.RNRRetryCount, endlessRNR)
	}
	return param
}

// qpOf returns the queue pair of a connection, which the device takes to RTS: that of the id, or the program's own by
// its number.
func (c *streamConn) qpOf(op string, p *ConnParam) (driver.QP, error) {
	if c.id.qp != nil {
		return driver.QPOf(c.id.qp), nil
	}
	d, ok := c.drv.(driver.NumberedDevice)
	if !ok {
		return nil, opErr(op, verbs.ErrNotSupported,
			"the device does not find queue pairs by number: make it with CreateQP")
	}
	qp := d.QPNumbered(p.QPNum)
	if qp == nil {
		return nil, opErr(op, verbs.ErrInvalid, "the device has no reliable queue pair %#x", uint32(p.QPNum))
	}
	return qp, nil
}

func (c *streamConn) connect(p *ConnParam) error {
	id := c.id
	if id.ps.datagrams() {
		return c.lookUp(p)
	}
	qp, err := c.qpOf("connect", p)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		c.stream, err = c.drv.DialStream(qp, id.local, id.peer, c.param(p),
			func(e driver.StreamEvent) { c.handleEvent(&e) })
		if tries == anyTries || !errors.Is(err, syscall.EADDRINUSE) || !c.m.rebindPort(id) {
			break
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return inUse("connect", id.ps, id.local)
	}
	if err != nil {
		return opErr("connect", err, "%v to %v", id.local, id.peer)
	}
	return nil
}

func (c *streamConn) accept(p *ConnParam) error {
	id := c.id
	if id.ps.datagrams() {
		return c.acceptDatagrams(p)
	}
	qp, err := c.qpOf("accept", p)
	if err != nil {
		return err
	}
	err = c.stream.Accept(qp, c.param(p), func(e driver.StreamEvent) { c.handleEvent(&e) })
	if errors.Is(err, verbs.ErrState) {
		id.state = failed // the peer has gone, or asks for the impossible: its request is over
	}
	if id.state == failed || err == nil {
		delete(c.requests, c.stream)
	}
	return err
}

func (c *streamConn) reject(private []byte) error {
	if c.id.ps.datagrams() {
		return c.refuse(private)
	}
	delete(c.requests, c.stream)
	return c.stream.Reject(private)
}

// handleEvent handles an event of a connection.
func (c *streamConn) handleEvent(e *driver.StreamEvent) {
	c.m.mu.Lock()
	defer c.m.unlock()
	if c.m.stopped {
		return
	}
	id := c.id
	switch {
	case e.Type == driver.StreamEstablished:
		c.begun(c.connParamOf(&e.Param))
	// a peer may refuse a reply
	case e.Type == driver.StreamRejected && (id.state == connecting || id.state == accepting):
		id.refused(ReasonConsumer, e.Param.PrivateData)
	case e.Type == driver.StreamFailed && (id.state == connecting || id.state == accepting):
		id.attemptFailed(e.Err)
	case e.Type == driver.StreamClosed && (id.state == accepting ||
		id.state >= established && id.state <= disconnected):
		id.over()
	// there it is over
	case (e.Type == driver.StreamRejected || e.Type == driver.StreamFailed) && id.state == established:
		id.over()
	case e.Type == driver.StreamReleased && id.state == disconnected:
		id.deliver(&Event{Type: TimewaitExit, ID: id})
	}
}

// begun reports that the stream is established. The program may have disconnected meanwhile.
func (c *streamConn) begun(p ConnParam) {
	id := c.id
	c.terms = p
	if id.state == connecting {
		id.state = established
		id.deliver(&Event{Type: Established, ID: id, Conn: p})
	}
	id.confirmed(p)
	if c.early {
		c.broken()
	}
}

func (c *streamConn) agreed() ConnParam { return c.terms }

// broken waits for the event that the stream is established, if that is still on its way: a queue pair
// fails only after it.
func (c *streamConn) broken() {
	switch c.id.state {
	case connecting, accepting:
		c.early = true
	case established:
		c.disconnect()
		c.id.over()
	}
}

func (id *ID) refused(why RejectReason, private []byte) {
	id.end(failed, &Event{Type: Rejected, Conn: ConnParam{PrivateData: private},
		Err: &RejectError{Address: id.peer.String(), Reason: why, PrivateData: private}})
}

// attemptFailed ends an attempt.
func (id *ID) attemptFailed(err error) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if !id.willRetry() {
			id.refused(ReasonInvalidService, nil)
		}
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, context.DeadlineExceeded):
		id.end(failed, &Event{Type: Unreachable,
			Err: opErr("connect", ErrTimeout, "%v does not answer: %v", id.peer, err)})
	default:
		id.end(failed, &Event{Type: ConnectError,
			Err: fmt.Errorf("cm: connecting %v to %v: %w", id.local, id.peer, err)})
	}
}

// ready has nothing to do for a queue pair that the program owns: the device has taken it to RTS.
func (c *streamConn) ready() error {
	if c.id.qp != nil {
		return opErr("establish", verbs.ErrState, "%s", c.id.addrs())
	}
	return nil
}

// established is for messages that overtake others: streams have none.
func (c *streamConn) established() error { return nil }
func (c *streamConn) disconnect() error {
	c.stream.Disconnect()
	return nil
}

func (c *streamConn) release() {
	if c.stream != nil {
		delete(c.requests, c.stream)
		c.stream.Close()
	}
}

func (c *streamConn) attr(next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	a := verbs.QPAttr{Access: verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic}
	if c.device.Caps&verbs.CapFlush != 0 {
		a.Access |= verbs.FlushGlobal | verbs.FlushPersistent
	}
	if next != verbs.StateInit || c.id.state == established { // the device takes the queue pair to RTS
		return a, verbs.MaskAccess, nil
	}
	a.State, a.Port = next, 1
	return a, verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess, nil
}

// connects: MPA has no field for other services (RFC 5044 section 7).
func (p *streamProtocol) connects(t verbs.QPType) bool {
	return t == verbs.RC || t == verbs.UD && p.datagrams()
}

func (c *streamConn) limits() (connect, accept, reject int) {
	if c.id.ps.datagrams() {
		return MaxConnectDataUD, MaxAcceptDataUD, MaxAcceptDataUD
	}
	return driver.MaxStreamData, driver.MaxStreamData, driver.MaxStreamData
}

func (p *streamProtocol) goodbye() func() { return func() {} } // the system ends the streams
func (p *streamProtocol) flush()          {}
func (p *streamProtocol) idle() bool      { return true }

func (p *streamProtocol) close() {
	for c := range p.listeners {
		c.unlisten()
	}
}
