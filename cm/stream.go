// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// streamProtocol makes connections of devices whose queue pairs are connected by streams:
// iWARP, where a connection is a TCP connection with the set-up of MPA (RFC 5044, RFC 6581)
// in front.
type streamProtocol struct {
	m         *manager
	drv       verbs.StreamDriver
	device    verbs.DeviceAttr
	listeners map[*ID]verbs.StreamListener
}

func newStreamProtocol(m *manager, drv verbs.StreamDriver) *streamProtocol {
	return &streamProtocol{m: m, drv: drv, device: m.dev.Query(), listeners: map[*ID]verbs.StreamListener{}}
}

// run waits for the end of the device.
func (p *streamProtocol) run() {
	go func() {
		<-p.drv.StreamsDone()
		p.m.fail(opErr("get_cm_event", verbs.ErrClosed, "the device is closed"))
	}()
}

// claim has nothing to do: listen finds out whether the system has the port to give.
func (p *streamProtocol) claim(*ID) error { return nil }

func (p *streamProtocol) listen(id *ID, backlog int) error {
	if id.ps.datagrams() {
		return noDatagrams("listen")
	}
	l, err := p.drv.ListenStream(id.local, backlog, func(e verbs.StreamEvent) { p.asked(id, e) })
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return verbs.ErrBusy
	case err != nil:
		return opErr("listen", err, "%v", id.local)
	}
	p.listeners[id] = l
	return nil
}

func noDatagrams(op string) error {
	return opErr(op, verbs.ErrNotSupported, "iWARP has no datagrams: use port space TCP")
}

func (p *streamProtocol) unlisten(id *ID) {
	if l := p.listeners[id]; l != nil {
		l.Close()
		delete(p.listeners, id)
	}
}

// asked makes the id of a connection that a peer asks for.
func (p *streamProtocol) asked(listener *ID, e verbs.StreamEvent) {
	p.m.mu.Lock()
	defer p.m.unlock()
	if p.m.stopped || listener.state != listening {
		e.Stream.Close()
		return
	}
	id := &ID{ps: listener.ps, sink: listener.sink, state: requested, tos: listener.tos, ackTimeout: listener.ackTimeout, stream: e.Stream, qpType: listener.qpType}
	id.local, id.peer = listener.local, e.Stream.PeerAddr()
	p.m.add(id)
	if !listener.tell(&Event{Type: ConnectRequest, ID: id, Listener: listener, Conn: said(&e.Param)}) {
		id.close() // nobody will
	}
}

// said is what the peer said, as a program has it.
func said(p *verbs.StreamParam) ConnParam {
	return ConnParam{PrivateData: p.PrivateData, ResponderResources: uint8(min(p.IRD, Unlimited)), InitiatorDepth: uint8(min(p.ORD, Unlimited)),
		RetryCount: 7, RNRRetryCount: 7}
}

// param is what we say.
func (p *streamProtocol) param(id *ID, c *ConnParam) verbs.StreamParam {
	return verbs.StreamParam{PrivateData: c.PrivateData, TOS: id.tos, IRD: uint16(depth(c.ResponderResources, p.device.MaxQPRdAtomic, Unlimited)),
		ORD: uint16(depth(c.InitiatorDepth, p.device.MaxQPInitRdAtom, Unlimited))}
}

// ownQP returns the queue pair of a connection, which the device takes to RTS.
func ownQP(op string, id *ID) (verbs.QPDriver, error) {
	if id.ps.datagrams() {
		return nil, noDatagrams(op)
	}
	if id.qp == nil {
		return nil, opErr(op, verbs.ErrNotSupported, "an iWARP connection needs a queue pair of CreateQP: the device takes it to RTS itself")
	}
	return id.qp.Driver(), nil
}

func (p *streamProtocol) connect(id *ID, c *ConnParam) error {
	qp, err := ownQP("connect", id)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		id.stream, err = p.drv.DialStream(qp, id.local, id.peer, p.param(id, c), func(e verbs.StreamEvent) { p.heard(id, &e) })
		if tries == anyTries || !errors.Is(err, syscall.EADDRINUSE) || !p.m.another(id) {
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

func (p *streamProtocol) accept(id *ID, c *ConnParam) error {
	qp, err := ownQP("accept", id)
	if err != nil {
		return err
	}
	err = id.stream.Accept(qp, p.param(id, c), func(e verbs.StreamEvent) { p.heard(id, &e) })
	if errors.Is(err, verbs.ErrState) {
		id.state = failed // the peer has gone, or wants what cannot be: it asks no more
	}
	return err
}

func (p *streamProtocol) reject(id *ID, private []byte) error { return id.stream.Reject(private) }

// heard goes on with what happened to a connection.
func (p *streamProtocol) heard(id *ID, e *verbs.StreamEvent) {
	p.m.mu.Lock()
	defer p.m.unlock()
	if p.m.stopped {
		return
	}
	switch {
	case e.Type == verbs.StreamEstablished && (id.state == connecting || id.state == accepting):
		id.state = established
		id.tell(&Event{Type: Established, ID: id, Conn: said(&e.Param)})
	case e.Type == verbs.StreamRejected && id.state == connecting:
		p.refused(id, ReasonConsumer, e.Param.PrivateData)
	case e.Type == verbs.StreamFailed && (id.state == connecting || id.state == accepting):
		p.failed(id, e.Err)
	case e.Type == verbs.StreamClosed && (id.state == accepting || id.state == established || id.state == disconnecting):
		id.end(disconnected, &Event{Type: Disconnected})
	}
}

func (p *streamProtocol) refused(id *ID, why RejectReason, private []byte) {
	id.end(failed, &Event{Type: Rejected, Conn: ConnParam{PrivateData: private},
		Err: &RejectError{Address: id.peer.String(), Reason: why, PrivateData: private}})
}

// failed ends an attempt.
func (p *streamProtocol) failed(id *ID, err error) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if !id.asksAgain() {
			p.refused(id, ReasonInvalidService, nil)
		}
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, context.DeadlineExceeded):
		id.end(failed, &Event{Type: Unreachable, Err: opErr("connect", ErrTimeout, "%v does not answer: %v", id.peer, err)})
	default:
		id.end(failed, &Event{Type: ConnectError, Err: fmt.Errorf("cm: connecting %v to %v: %w", id.local, id.peer, err)})
	}
}

// ready and established are of queue pairs that the program owns, and of messages that
// overtake others: neither is there.
func (p *streamProtocol) ready(id *ID) error {
	return opErr("establish", verbs.ErrState, "%s", id.where())
}
func (p *streamProtocol) established(*ID) error { return nil }
func (p *streamProtocol) disconnect(id *ID) error {
	id.stream.Disconnect()
	return nil
}

func (p *streamProtocol) release(id *ID) {
	if id.stream != nil {
		id.stream.Close()
	}
}

func (p *streamProtocol) attr(id *ID, next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	if next != verbs.Init {
		return verbs.QPAttr{}, 0, opErr("init_qp_attr", verbs.ErrNotSupported, "an iWARP device takes the queue pair of a connection to RTS itself")
	}
	a := verbs.QPAttr{State: next, Port: 1, Access: verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic}
	return a, verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess, nil
}

// connects: MPA has no word for other services (RFC 5044 section 7).
func (p *streamProtocol) connects(t verbs.QPType) bool { return t == verbs.RC }

func (p *streamProtocol) limits(*ID) (connect, accept, reject int) {
	return verbs.MaxStreamData, verbs.MaxStreamData, verbs.MaxStreamData
}

func (p *streamProtocol) flush()     {}
func (p *streamProtocol) idle() bool { return true }

func (p *streamProtocol) close() {
	for id := range p.listeners {
		p.unlisten(id)
	}
}
