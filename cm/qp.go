// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// CreateQP creates a queue pair that the manager takes through its states (rdma_create_qp): INIT
// now, so that receives can be posted, RTR and RTS as the connection is established, ERR when it
// ends. Queue pairs of datagram services go to RTS at once. A zero init.Type stands for the type given to
// SetQPType, or else for the port space's. Closing the id destroys the queue pair.
//
// The error is ErrInvalid if the type is not that of SetQPType or does not belong to the port
// space, and ErrNotSupported if the device does not connect such queue pairs. CreateTargetQP
// creates XRC targets.
func (id *ID) CreateQP(pd *verbs.PD, init verbs.QPInit) (*verbs.QP, error) {
	const op = "create_qp"
	if pd == nil || pd.Device() != id.dev {
		return nil, opErr(op, verbs.ErrInvalid, "the protection domain is not of %s", id.dev.Name())
	}
	return id.createQP(op, init, pd.CreateQP)
}

// CreateTargetQP creates the XRC target of a request as CreateQP creates other queue pairs. The
// listener's SetQPType was called with XRCTgt. Requests go to the shared receive queues of the
// domain. The peer has to learn their numbers, for example by ConnParam.PrivateData: the messages
// have no field for them.
func (id *ID) CreateTargetQP(x *verbs.XRCD, init verbs.QPInit) (*verbs.QP, error) {
	const op = "create_qp"
	if x == nil || x.Device() != id.dev {
		return nil, opErr(op, verbs.ErrInvalid, "the XRC domain is not of %s", id.dev.Name())
	}
	init.Type = verbs.XRCTgt
	return id.createQP(op, init, x.CreateTargetQP)
}

func (id *ID) createQP(op string, init verbs.QPInit, create func(verbs.QPInit) (*verbs.QP, error)) (*verbs.QP, error) {
	end := id.beginQP(init)
	qp, err := id.makeQP(op, init, create)
	end(qp, err)
	return qp, err
}

func (id *ID) makeQP(op string, init verbs.QPInit, create func(verbs.QPInit) (*verbs.QP, error)) (*verbs.QP, error) {
	if err := id.lockIn(op, idle, bound, addrResolved, routeResolved, requested); err != nil {
		return nil, err
	}
	defer id.m.unlock()
	if id.qp != nil {
		return nil, opErr(op, verbs.ErrBusy, "the id has a queue pair already")
	}
	if init.Type == 0 {
		init.Type = id.defaultType()
	}
	if err := id.fitsType(op, init.Type); err != nil {
		return nil, err
	}
	qp, err := create(init)
	if err != nil {
		return nil, err
	}
	if id.ps.datagrams() {
		err = qp.StartUD(UDPQKey)
	} else {
		err = id.moveQP(qp, verbs.StateInit)
	}
	if err != nil {
		qp.Close()
		return nil, err
	}
	id.qp, id.srq, id.qpType = qp, init.SRQ != nil, init.Type
	if !id.ps.datagrams() {
		driver.Watch(qp, id.watch)
	}
	return qp, nil
}

// QP returns the queue pair that CreateQP created, or nil.
func (id *ID) QP() *verbs.QP {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.qp
}

// InitQPAttr returns the attributes that a queue pair of the program's own needs for its next state
// (rdma_init_qp_attr): Init at any time, RTR and RTS after a ConnectRequest or a
// ConnectResponse. Over iWARP and shared memory the device takes the queue pair from Init to RTS: there the latter two,
// and all of them once the connection is established, change only the access rights.
func (id *ID) InitQPAttr(next verbs.QPState) (verbs.QPAttr, verbs.QPMask, error) {
	const op = "init_qp_attr"
	if id.ps.datagrams() {
		return verbs.QPAttr{}, 0, opErr(op, verbs.ErrNotSupported,
			"datagram queue pairs need no attributes of a peer: see verbs.QP.StartUD")
	}
	var err error
	switch next {
	case verbs.StateInit:
		err = id.lockIn(op, idle, bound, addrResolved, routeResolved, connecting, replied, requested, accepting,
			established)
	case verbs.StateRTR, verbs.StateRTS:
		err = id.lockIn(op, replied, requested, accepting, established)
	default:
		return verbs.QPAttr{}, 0, opErr(op, verbs.ErrInvalid, "state %v: Init, RTR or RTS", next)
	}
	if err != nil {
		return verbs.QPAttr{}, 0, err
	}
	defer id.m.unlock()
	return id.ep.attr(next)
}

// moveQP takes a queue pair through the next states.
func (id *ID) moveQP(qp *verbs.QP, states ...verbs.QPState) error {
	for _, s := range states {
		attr, mask, err := id.ep.attr(s)
		if err != nil {
			return err
		}
		if err := qp.Modify(attr, mask); err != nil {
			return err
		}
	}
	return nil
}

// breakQP puts the id's queue pair, if it has one, into the error state: everything that
// was posted is flushed. It has no effect on datagram services, which have no peer to lose.
func (id *ID) breakQP() {
	if id.qp != nil && !id.ps.datagrams() {
		id.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState) // fails if the program has closed it
	}
}

// watch receives the queue pair's events, with the device's lock held.
func (id *ID) watch(t verbs.EventType) {
	switch t {
	case driver.EventQPBroken, verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError:
		go id.broken()
	case verbs.EventCommEstablished:
		go id.Notify(t) // an error means that it is too late
	}
}

// broken ends a connection whose queue pair has failed, because the peer is gone or broke the
// rules. The program is told at once, the peer if it can be reached.
func (id *ID) broken() {
	id.m.mu.Lock()
	defer id.m.unlock()
	if !id.m.stopped {
		id.ep.broken()
	}
}
