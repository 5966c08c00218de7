// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Kinds of work requests, in the highest byte of their IDs. The rest is a slot.
const (
	idRecv    uint64 = iota << 56
	idSend           // a message in a slot
	idControl        // a message without data, inline
	idRemote         // an operation on memory
	idMask    = 0xff << 56
)

// endpoint is the queue pair and the memory of a connection. The code that connects the queue pair destroys it; close
// frees the rest. The protection domain is the connection's own: its keys are of use to its peer only.
type endpoint struct {
	opt Options

	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	send *verbs.MR // a slot for each message with data
	recv *verbs.MR // a slot for each receive
}

// newEndpoint creates an endpoint; create creates the queue pair.
func newEndpoint(dev *verbs.Device, opt Options,
	create func(*verbs.PD, verbs.QPInit) (*verbs.QP, error)) (e *endpoint, err error) {
	e = &endpoint{opt: opt}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.pd, err = dev.AllocPD(); err != nil {
		return e, err
	}
	if e.send, err = e.pd.AllocMR(opt.SendCredits*opt.MaxSendSize, 0); err != nil {
		return e, err
	}
	if e.recv, err = e.pd.AllocMR(opt.RecvCredits*opt.MaxReceiveSize, verbs.LocalWrite); err != nil {
		return e, err
	}
	sends := opt.SendCredits + spareSends + remoteOps
	if e.cq, err = dev.CreateCQ(sends+opt.RecvCredits, &verbs.CQOptions{NoTimestamps: true}); err != nil {
		return e, err
	}
	e.qp, err = create(e.pd, verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: sends,
		MaxRecvWR: opt.RecvCredits, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: wire.ResponseSize}})
	return e, err
}

// postRecv posts the receive of a slot.
func (e *endpoint) postRecv(slot int) error {
	return e.qp.PostRecv(&verbs.RecvWR{ID: idRecv | uint64(slot),
		SGL: []verbs.SGE{e.recv.SGE(slot*e.opt.MaxReceiveSize, e.opt.MaxReceiveSize)}})
}

// postInline sends a short message.
func (e *endpoint) postInline(b []byte) error {
	return e.qp.PostSend(&verbs.SendWR{ID: idControl, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: b})
}

// received returns the bytes received in a slot.
func (e *endpoint) received(slot, n int) []byte {
	return e.recv.Bytes()[slot*e.opt.MaxReceiveSize:][:n]
}

// close frees the endpoint. The queue pair was destroyed or never created.
func (e *endpoint) close() error {
	var errs []error
	if e.cq != nil {
		errs = append(errs, e.cq.Close())
	}
	for _, mr := range []*verbs.MR{e.send, e.recv} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	return errors.Join(errs...)
}
