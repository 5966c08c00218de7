// SPDX-License-Identifier: Apache-2.0

package umad

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Len is the length of a management datagram in bytes (IBTA 13.4.2).
const Len = mad.Size

// Agent sends and receives the management datagrams of one class at queue pair 0 or 1 of a port.
// Examples are a connection manager, a performance agent, an administrator's client. Many agents
// share the queue pair, in one process or, where processes share an address, in several.
//
// A response reaches the agent that sent the request, by its transaction id. Unsolicited datagrams
// reach the agent that registered for their class, version and method. Datagrams for no agent are
// dropped and counted.
//
// All methods may be called from any goroutine.
type Agent struct {
	dev   *verbs.Device // keeps it alive
	close func(op string, destroy func() error) error
	drv   agentDriver
}

// Spec is the registration of an agent.
type Spec struct {
	Class   mad.Class
	Version uint8 // of the class; 0: any that no other agent has registered for
	// Methods are the methods of unsolicited datagrams that the agent takes, such as Get. An agent
	// without methods receives responses only, and there can be any number of them.
	Methods []mad.Method
}

// Path is the address of a management datagram's destination, or of its source.
type Path struct {
	AH   verbs.AHAttr // the path there; of a received datagram the path back
	QPN  verbs.QPN    // the queue pair there; 0, sending from queue pair 1: queue pair 1
	QKey verbs.QKey   // 0: the one of queue pair 1
	PKey verbs.PKey   // one of the port's table, but for its membership bit; 0: the default partition
}

// Open registers an agent at queue pair 0 of a device's port, which serves subnet management, or at 1, which
// serves all other classes (IBTA 13.5). It returns ErrNotSupported if the port has no such queue pair, ErrBusy if
// another agent of this device has registered for one of the methods, and ErrNoMemory if there are too many
// agents. The agent keeps the device from being freed until it is closed.
func Open(dev *verbs.Device, port int, qp verbs.QPN, spec Spec) (*Agent, error) {
	const op = "open_mad"
	o, ok := deviceOf(dev).(deviceDriver)
	switch {
	case !ok:
		return nil, opErr(op, verbs.ErrNotSupported, "the device has no management datagrams")
	case qp > ib.QP1:
		return nil, opErr(op, verbs.ErrInvalid, fmt.Sprintf("queue pair %d: management datagrams have 0 and 1", qp))
	case spec.Class.Subnet() != (qp == ib.QP0):
		return nil, opErr(op, verbs.ErrInvalid,
			fmt.Sprintf("class %#02x at queue pair %d: subnet management has queue pair 0, all other classes have 1",
				uint8(spec.Class), qp))
	}
	for _, m := range spec.Methods {
		if m.Answers() {
			return nil, opErr(op, verbs.ErrInvalid, fmt.Sprintf("method %#02x: answers reach whoever asked", uint8(m)))
		}
	}
	end, err := use(dev, op)
	if err != nil {
		return nil, err
	}
	a := &Agent{dev: dev, close: end}
	if a.drv, err = o.OpenMAD(port, qp, spec); err != nil {
		end(op, func() error { return nil })
		return nil, wrap(op, err)
	}
	return a, nil
}

// Send sends one management datagram of [Len] bytes. It does not block and retains no reference
// to mad. Delivery is not guaranteed. A request ([mad.Method.Asks]) gets the upper half of its
// transaction id from the agent, whatever is in mad, so that the response finds its way; see
// [Agent.Transaction]. ErrQueueFull means that the device can take no more now, and the datagram
// was not sent.
func (a *Agent) Send(to Path, mad []byte) error {
	const op = "send_mad"
	if len(mad) != Len {
		return opErr(op, verbs.ErrInvalid, fmt.Sprintf("a management datagram has %d bytes, this one %d", Len,
			len(mad)))
	}
	return wrap(op, a.drv.Send(to, mad))
}

// Recv waits for the next datagram and copies it to mad, which has room for [Len] bytes. from is
// the path for a reply by [Agent.Send]. It is not authenticated: any host can forge it. Up to
// a limit, datagrams that arrive between two calls are queued; the rest is dropped and counted.
// The error is ErrClosed once the agent or the device is closed, or that of the context.
func (a *Agent) Recv(ctx context.Context, mad []byte) (n int, from Path, err error) {
	const op = "recv_mad"
	if len(mad) < Len {
		return 0, from, opErr(op, verbs.ErrInvalid,
			fmt.Sprintf("a management datagram has %d bytes, the buffer %d", Len, len(mad)))
	}
	n, from, err = a.drv.Recv(ctx, mad)
	if err != nil && err == ctx.Err() {
		return n, from, err
	}
	return n, from, wrap(op, err)
}

// Transaction returns the transaction id that a request of the agent with this lower half has, and
// so has its response.
func (a *Agent) Transaction(low uint32) uint64 {
	return uint64(a.drv.Transactions())<<32 | uint64(low)
}

// Refused waits until the network reports that datagrams to an address are refused, and returns the
// error: syscall.ECONNREFUSED if the host has no device at that address, or EHOSTUNREACH or
// ENETUNREACH. Silence means nothing: then Refused waits until ctx ends, and returns its error.
// ErrNotSupported means that the device gets no such reports.
func (a *Agent) Refused(ctx context.Context, to verbs.AHAttr) error {
	const op = "await_refusal"
	err := a.drv.Refused(ctx, to)
	if err != nil && err == ctx.Err() {
		return err
	}
	return wrap(op, err)
}

// Claim directs requests of connection managers to this process, where several share an address: the requests for
// service ids that equal service in the bits of mask. A mask of all ones stands for one id. It returns ErrBusy if one
// of them is already claimed, by this or another process of the address, and ErrInvalid if the agent is of another
// class.
func (a *Agent) Claim(service, mask uint64) error {
	return wrap("claim_service", a.drv.Claim(service, mask))
}

// Release gives up the claim of the same service. Close releases all claims.
func (a *Agent) Release(service uint64) { a.drv.Release(service) }

// IDs returns which local communication ids a connection manager of this process may use: base | x
// &^ mask for any x. Responses find their process by them. Where no other process can share the
// address, both are zero.
func (a *Agent) IDs() (base, mask uint32) { return a.drv.IDs() }

// Close closes the agent. A pending Recv returns ErrClosed.
func (a *Agent) Close() error {
	return a.close("close_mad", func() error { return wrap("close_mad", a.drv.Close()) })
}
