// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A datagram service of a device that connects by streams is asked for by a stream that never has a
// queue pair: serviceMagic and the program's private data are the request's, and the answer is a
// rejection, whose private data are a serviceReply and the program's. It says what SIDR REP says
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
	*r = serviceReply{status: mad.SIDRStatus(status), qpn: verbs.QPN(qpn), qkey: verbs.QKey(binary.BigEndian.Uint32(b[8:]))}
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
	param := verbs.StreamParam{TOS: id.tos, PrivateData: append([]byte(serviceMagic), p.PrivateData...)}
	var err error
	if c.stream, err = c.drv.DialStream(nil, id.local, id.peer, param, func(e verbs.StreamEvent) { c.answered(&e) }); err != nil {
		return opErr("connect", err, "%v to %v", id.local, id.peer)
	}
	return nil
}

// lookedUp returns the private data of a request for a datagram service, filled up to their length in
// the messages of InfiniBand. ok is false if it is a request for a connection.
func lookedUp(p *verbs.StreamParam) (private []byte, ok bool) {
	said, ok := bytes.CutPrefix(p.PrivateData, []byte(serviceMagic))
	if !ok || len(said) > MaxConnectDataUD {
		return nil, false
	}
	private = make([]byte, MaxConnectDataUD)
	copy(private, said)
	return private, true
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
	return c.serve(r, p.PrivateData)
}

// answered handles what comes of a request for a datagram service.
func (c *streamConn) answered(e *verbs.StreamEvent) {
	c.m.mu.Lock()
	defer c.m.unlock()
	id := c.id
	if c.m.stopped || id.state != connecting {
		return
	}
	var r serviceReply
	private, ok := r.decode(e.Param.PrivateData)
	to := id.way(id.peer.Addr())
	switch {
	case e.Type == verbs.StreamRejected && ok:
		m := mad.SIDRREP{Status: r.status, QPN: r.qpn, QKey: r.qkey}
		copy(m.Private[:], private)
		id.served(&m, to)
	case e.Type == verbs.StreamRejected, errors.Is(e.Err, syscall.ECONNREFUSED):
		id.served(&mad.SIDRREP{Status: mad.SIDRUnsupported}, to)
	case e.Type == verbs.StreamFailed:
		id.attemptFailed(e.Err)
	}
}
