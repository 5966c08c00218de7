// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A datagram service of a device that connects by streams is requested by a stream that never has a
// queue pair: serviceMagic and the program's private data are the request's, and the answer is a
// rejection, whose private data are a serviceReply and the program's. It has the meaning of SIDR REP
// elsewhere (IBTA 12.11).
const (
	serviceMagic    = "RamjetUD"
	serviceReplyLen = len(serviceMagic) + 12
)

// serviceReply is the answer of a datagram service: after the magic its status, the number of its
// queue pair and its Q_Key, of 4 bytes each, most significant first.
type serviceReply struct {
	status mad.SIDRStatus
	qpn    verbs.QPN
	qkey   verbs.QKey
}

func (r *serviceReply) append(b []byte) []byte {
	b = append(b, serviceMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(r.status))
	b = binary.BigEndian.AppendUint32(b, uint32(r.qpn))
	return binary.BigEndian.AppendUint32(b, uint32(r.qkey))
}

// decode reads the answer and returns the program's private data. ok is false if it is none.
func (r *serviceReply) decode(b []byte) (private []byte, ok bool) {
	if len(b) < serviceReplyLen || !bytes.HasPrefix(b, []byte(serviceMagic)) {
		return nil, false
	}
	private, b = b[serviceReplyLen:], b[len(serviceMagic):]
	status, qpn := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	*r = serviceReply{status: mad.SIDRStatus(status), qpn: verbs.QPN(qpn),
		qkey: verbs.QKey(binary.BigEndian.Uint32(b[8:]))}
	return private, status <= 0xff && qpn < 1<<24 && len(private) <= MaxAcceptDataUD
}

// datagrams reports whether the device has them.
func (p *streamProtocol) datagrams() bool { return p.device.Caps&verbs.CapUD != 0 }

// lookUp asks for a datagram service.
func (c *streamConn) lookUp(p *ConnParam) error {
	if !c.datagrams() {
		return noDatagrams("connect")
	}
	id := c.id
	param := driver.StreamParam{TOS: id.tos, PrivateData: append([]byte(serviceMagic), p.PrivateData...)}
	answered := func(e driver.StreamEvent) { c.answered(&e) }
	var err error
	if c.services != nil {
		param.PrivateData = p.PrivateData
		c.stream, err = c.services.LookUpService(id.local, id.peer, param, answered)
	} else {
		c.stream, err = c.drv.DialStream(nil, id.local, id.peer, param, answered)
	}
	if err != nil {
		return opErr("connect", err, "%v to %v", id.local, id.peer)
	}
	return nil
}

// serviceRequest returns the private data of a request for a datagram service, filled up to their length in
// the messages of InfiniBand. ok is false if it is a request for a connection.
func (p *streamProtocol) serviceRequest(e *driver.StreamEvent) (private []byte, ok bool) {
	said, ok := e.Param.PrivateData, false
	if p.services != nil {
		_, ok = e.Stream.(driver.ServiceStream)
	} else {
		said, ok = bytes.CutPrefix(said, []byte(serviceMagic))
	}
	if !ok || len(said) > MaxConnectDataUD {
		return nil, false
	}
	private = make([]byte, MaxConnectDataUD)
	copy(private, said)
	return private, true
}

// refuse answers that a datagram service does not want this request.
func (c *streamConn) refuse(private []byte) error {
	if c.services != nil {
		delete(c.requests, c.stream)
		return c.stream.Reject(private)
	}
	return c.serve(serviceReply{status: mad.SIDRReject}, private)
}

// serve answers for a datagram service.
func (c *streamConn) serve(r serviceReply, private []byte) error {
	delete(c.requests, c.stream)
	return c.stream.Reject(append(r.append(nil), private...))
}

// acceptDatagrams has a datagram service answer with its queue pair.
func (c *streamConn) acceptDatagrams(p *ConnParam) error {
	r := serviceReply{status: mad.SIDRValid, qpn: p.QPNum, qkey: UDPQKey}
	if c.id.qp != nil {
		r.qpn = c.id.qp.Num()
	}
	if s, ok := c.stream.(driver.ServiceStream); ok {
		delete(c.requests, c.stream)
		return s.AcceptService(r.qpn, p.PrivateData)
	}
	return c.serve(r, p.PrivateData)
}

// answered handles the answer to a request for a datagram service.
func (c *streamConn) answered(e *driver.StreamEvent) {
	c.m.mu.Lock()
	defer c.m.unlock()
	id := c.id
	if c.m.stopped || id.state != connecting {
		return
	}
	var r serviceReply
	private, ok := r.decode(e.Param.PrivateData)
	to := id.vectorTo(id.peer.Addr())
	switch {
	case c.services != nil && (e.Type == driver.StreamEstablished || e.Type == driver.StreamRejected):
		m := mad.SIDRREP{Status: mad.SIDRStatus(e.Service.Status), QPN: e.Service.QPN, QKey: e.Service.QKey}
		copy(m.Private[:], e.Param.PrivateData)
		id.served(&m, e.Service.AH)
	case e.Type == driver.StreamRejected && ok:
		m := mad.SIDRREP{Status: r.status, QPN: r.qpn, QKey: r.qkey}
		copy(m.Private[:], private)
		id.served(&m, to)
	case e.Type == driver.StreamRejected, errors.Is(e.Err, syscall.ECONNREFUSED):
		id.served(&mad.SIDRREP{Status: mad.SIDRUnsupported}, to)
	case e.Type == driver.StreamFailed:
		id.attemptFailed(e.Err)
	}
}

// join has the device join the group, if it can.
func (c *streamConn) join(g *membership) (query, error) {
	const op = "join_multicast"
	switch {
	case c.device.Caps&verbs.CapUDMulticast == 0:
		return nil, opErr(op, verbs.ErrNotSupported, "the device has no multicast")
	case c.services == nil: // the GID of a group is its address, and there is no administrator
		g.to, g.qkey = c.id.vectorTo(g.group), UDPQKey
		return nil, nil
	}
	answer := make(chan driver.StreamEvent, 1)
	s, err := c.services.JoinGroup(c.id.local.Addr(), g.group, func(e driver.StreamEvent) {
		select {
		case answer <- e:
		default: // it was delivered before
		}
	})
	if err != nil {
		return nil, opErr(op, err, "%v from %v", g.group, c.id.local.Addr())
	}
	g.stream = s
	return func(ctx context.Context) error {
		select {
		case e := <-answer:
			if e.Type != driver.StreamEstablished {
				return opErr(op, e.Err, "%v from %v", g.group, c.id.local.Addr())
			}
			g.to, g.qkey = e.Service.AH, e.Service.QKey
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-c.drv.StreamsDone():
			return verbs.ErrClosed
		}
	}, nil
}

func (c *streamConn) leave(g *membership) {
	if g.stream != nil {
		g.stream.Close()
	}
}
