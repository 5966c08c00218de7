// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// spareSends are work requests for control messages, besides the ones for data.
	spareSends = 2 * maxAnswers
	// repostBatch is how many receives are consumed before they are posted again, together.
	repostBatch = 8
)

// endpoint is the queue pair and the memory of a connection. The code that connects the queue pair destroys it; close
// frees the rest. The protection domain is the connection's own: its keys are of use to its peer only.
type endpoint struct {
	opt Options

	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	send *verbs.MR // the send ring
	recv *verbs.MR // the receive buffer
	msgs *verbs.MR // a slot for each receive

	recvs [repostBatch]verbs.RecvWR
	sges  [repostBatch]verbs.SGE
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
	if e.send, err = e.pd.AllocMR(opt.SendBuffer, 0); err != nil {
		return e, err
	}
	if e.recv, err = e.pd.AllocMR(opt.RecvBuffer, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return e, err
	}
	if e.msgs, err = e.pd.AllocMR(opt.RecvQueue*MessageSize, verbs.LocalWrite); err != nil {
		return e, err
	}
	sends := opt.SendQueue + spareSends
	if e.cq, err = dev.CreateCQ(sends+opt.RecvQueue, &verbs.CQOptions{Spin: opt.Spin, NoTimestamps: true}); err != nil {
		return e, err
	}
	e.qp, err = create(e.pd, verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: sends,
		MaxRecvWR: opt.RecvQueue, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: max(opt.Inline, MessageSize)}})
	return e, err
}

// postReceives posts the receives of slots.
func (e *endpoint) postReceives(slots []uint64) error {
	for i, slot := range slots {
		e.sges[i] = e.msgs.SGE(int(slot)*MessageSize, MessageSize)
		e.recvs[i] = verbs.RecvWR{ID: slot, SGL: e.sges[i : i+1]}
	}
	_, err := e.qp.PostRecvList(e.recvs[:len(slots)])
	return err
}

// postAll posts the receives of all slots; the queue pair is in INIT.
func (e *endpoint) postAll() error {
	for slot := range e.opt.RecvQueue {
		if err := e.postReceives([]uint64{uint64(slot)}); err != nil {
			return err
		}
	}
	return nil
}

// message returns the message that was received in a slot.
func (e *endpoint) message(slot uint64, n int) []byte {
	return e.msgs.Bytes()[slot*MessageSize:][:n]
}

// close frees the endpoint. The queue pair was destroyed or never created.
func (e *endpoint) close() error {
	var errs []error
	if e.cq != nil {
		errs = append(errs, e.cq.Close())
	}
	for _, mr := range []*verbs.MR{e.send, e.recv, e.msgs} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	return errors.Join(errs...)
}
