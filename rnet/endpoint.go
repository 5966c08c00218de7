// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// spareReceives are posted beyond the credits, for messages that need none: the peer's credits,
// receive buffers, shutdown and disconnect, as many as it can send while this side does not poll. A
// message that finds no receive costs a whole RNR delay.
const spareReceives = 64

// repostBatch is how many receives are consumed before they are posted again, together.
const repostBatch = spareReceives / 2

// endpoint is the queue pair and the memory of a connection. The function that connects the queue pair
// destroys it; close frees the rest.
type endpoint struct {
	opt Options
	cfg rsocket.Config

	mtu  int // path MTU in bytes; 0: not known yet
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	send *verbs.MR // the send ring
	recv *verbs.MR // the receive ring
	tab  *verbs.MR // target list and mapped buffers of the peer
	in   receives

	notify *notifier
}

// newEndpoint creates an endpoint; create creates the queue pair.
func newEndpoint(dev *verbs.Device, opt Options, create func(*verbs.PD, verbs.QPInit) (*verbs.QP, error)) (e *endpoint,
	err error) {
	e = &endpoint{notify: &notifier{}}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.opt, err = opt.withDefaults(dev); err != nil {
		return e, err
	}
	o := &e.opt
	if e.pd, err = dev.AllocPD(); err != nil {
		return e, err
	}
	if e.send, err = e.pd.AllocMR(o.SendBuffer, 0); err != nil {
		return e, err
	}
	if e.recv, err = e.pd.AllocMR(o.RecvBuffer, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return e, err
	}
	e.cfg = rsocket.Config{SendBuf: o.SendBuffer, SendQueue: o.SendQueue, RecvBuf: o.RecvBuffer, Credits: o.RecvQueue,
		IOMaps: o.IOMaps, Inline: o.Inline, Ring: rsocket.Region{Addr: e.recv.Addr(), Key: uint32(e.recv.RKey())}}
	if e.cfg.Sends = needsSends(dev); e.cfg.Sends {
		if err = e.in.init(e.pd, o.RecvQueue+spareReceives); err != nil {
			return e, err
		}
	}
	if e.tab, err = e.pd.RegMR(make([]byte, e.cfg.TableSize()), verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return e, err
	}
	e.cfg.Table = rsocket.Region{Addr: e.tab.Addr(), Key: uint32(e.tab.RKey())}
	receives := o.RecvQueue + spareReceives
	cqOpt := &verbs.CQOptions{Spin: -1, Notify: e.notify.call, LockedThread: o.LockedThread}
	if e.cq, err = dev.CreateCQ(o.SendQueue+receives, cqOpt); err != nil {
		return e, err
	}
	e.qp, err = create(e.pd, verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 2 * o.SendQueue, MaxRecvWR: receives,
			MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: max(o.Inline, rsocket.IOMapSize)}})
	return e, err
}

// shape makes the largest message fill one send of a software device: a UDP datagram, segmented or
// not, of packets that are all of one size.
func (e *endpoint) shape(mtu int) {
	const (
		maxSend = 65507
		headers = 12 + 16 + 4 // BTH, RETH, ICRC
	)
	if e.cfg.Sends {
		return // a stream has no packets
	}
	e.mtu = mtu
	e.cfg.Chunk = min(maxSend/(mtu+headers)*mtu-immSize, rsocket.MaxTransfer)
}

// postReceives posts all receives; the queue pair is in INIT or beyond.
func (e *endpoint) postReceives() error {
	for n := e.opt.RecvQueue + spareReceives; n > 0; {
		k, err := e.qp.PostRecvList(e.in.next(min(n, repostBatch)))
		if err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// fill copies b into the send ring at off.
func (e *endpoint) fill(off int, b []byte) {
	ring := e.send.Bytes()
	copy(ring, b[copy(ring[off:], b):])
}

// connData is the private data for the peer.
func (e *endpoint) connData() []byte { return e.cfg.ConnData().Append(nil) }

// close frees the endpoint. The queue pair was destroyed or never created.
func (e *endpoint) close() error {
	var errs []error
	if e.cq != nil {
		errs = append(errs, e.cq.Close())
	}
	for _, mr := range []*verbs.MR{e.send, e.recv, e.tab, e.in.words} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	return errors.Join(errs...)
}
