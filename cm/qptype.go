// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/ramjet-rdma/ramjet/verbs"

// SetQPType sets the type of the queue pairs that the id connects (as rdma_create_ep does). A
// listener rejects requests for others. Connect requests this type even if the program owns its
// queue pair. XRCTgt is for listeners, XRCIni for ids that connect; both need port space IB.
// Without SetQPType connections are for RC, in port space IB also for UC.
//
// The error is ErrInvalid if the port space has no such queue pairs or the id has one of another
// type, and ErrNotSupported if the device cannot connect them.
func (id *ID) SetQPType(t verbs.QPType) error {
	const op = "set_qp_type"
	if err := id.lockIn(op, idle, bound, addrResolved, routeResolved); err != nil {
		return err
	}
	defer id.m.unlock()
	if !id.ps.carries(t) {
		return opErr(op, verbs.ErrInvalid, "queue pairs of type %v in port space %v", t, id.ps)
	}
	if !id.m.proto.connects(t) {
		return opErr(op, verbs.ErrNotSupported, "%s connects no queue pairs of type %v", id.dev.Name(), t)
	}
	if id.qp != nil && id.qpType != t {
		return opErr(op, verbs.ErrInvalid, "the id has a queue pair of type %v, not %v", id.qpType, t)
	}
	id.qpType = t
	return nil
}

// carries reports whether queue pairs of a type belong to the port space. The TCP space has RC alone:
// Linux's manager takes no other request there, and librdmacm cannot bring a UC queue pair of such
// an id to RTR.
func (ps PortSpace) carries(t verbs.QPType) bool {
	switch t {
	case verbs.RC:
		return !ps.datagrams()
	case verbs.UC, verbs.XRCIni, verbs.XRCTgt:
		return ps == IB
	case verbs.UD:
		return ps.datagrams()
	}
	return false
}

// defaultType is the type of queue pairs whose program does not choose one.
func (id *ID) defaultType() verbs.QPType {
	switch {
	case id.qpType != 0:
		return id.qpType
	case id.ps.datagrams():
		return verbs.UD
	}
	return verbs.RC
}

// fitsType reports why a queue pair of a type cannot be the id's. The two ends of XRC differ: the
// initiator sends requests, and only a listener that asked for it has targets (IBTA annex A14).
func (id *ID) fitsType(op string, t verbs.QPType) error {
	switch {
	case id.qpType != 0 && t != id.qpType:
		return opErr(op, verbs.ErrInvalid, "a queue pair of type %v%s, which connects type %v", t, id.addrs(),
			id.qpType)
	case t > verbs.UD && !id.m.proto.connects(t):
		return opErr(op, verbs.ErrNotSupported, "%s connects no queue pairs of type %v", id.dev.Name(), t)
	case !id.ps.carries(t):
		return opErr(op, verbs.ErrInvalid, "a queue pair of type %v in port space %v", t, id.ps)
	case t == verbs.XRCTgt && id.state != requested:
		return opErr(op, verbs.ErrInvalid, "%v is for requests, and the id is %v", t, id.state)
	case t == verbs.XRCIni && id.state == requested:
		return opErr(op, verbs.ErrInvalid, "%v asks for connections: a listener's requests have it with SetQPType(%v)",
			t, verbs.XRCTgt)
	}
	return nil
}
