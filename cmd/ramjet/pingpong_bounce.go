// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	pingpongQKey    = verbs.QKey(0x11111111)
	pingpongFill    = 0x7b
	pingpongPage    = 4096
	pingpongSilence = 30 * time.Second // of the peer, before a side gives up
	grhLen          = 40

	sendID, recvID = 1, 2 // of work requests, and bits of what a queue pair waits for
)

// pingpong is one side of a pingpong.
type pingpong struct {
	kind pingpongKind
	*pingpongFlags
	pathMTU verbs.MTU
	offset  int // of the message in its buffer: behind the GRH for datagrams

	pd      *verbs.PD
	channel *verbs.CompChannel // with --events
	cq      *verbs.CQ
	mr      *verbs.MR
	srq     *verbs.SRQ
	qps     []*verbs.QP
	ah      *verbs.AH

	local, remote []verbs.Endpoint
	index         map[verbs.QPN]int // of a queue pair
	pending       []uint8           // what each queue pair waits for before its next send
	posted        int               // receives
	sent, recvd   int
	wcs           [32]verbs.WC
}

// newPingpong makes everything that is needed before the peer is known.
func newPingpong(k pingpongKind, f *pingpongFlags, dev *verbs.Device) (*pingpong, error) {
	p := &pingpong{kind: k, pingpongFlags: f, index: make(map[verbs.QPN]int)}
	port, err := dev.Port(1)
	if err != nil {
		return nil, err
	}
	if err := p.checkFlags(port.ActiveMTU, dev.Query()); err != nil {
		return nil, err
	}
	length := int(f.size)
	if k.qp == verbs.UD {
		p.offset = grhLen
		length = grhLen + port.ActiveMTU.Bytes() // a peer may send more than we do
	}
	return p, p.open(dev, length)
}

func (p *pingpong) checkFlags(portMTU verbs.MTU, limits verbs.DeviceAttr) error {
	switch {
	case p.size < 1 || uint64(p.size) > limits.MaxMsgSize:
		return usagef("--size %d: give 1 to %d bytes", p.size, limits.MaxMsgSize)
	case p.iters < 1:
		return usagef("--iters %d: give at least 1", p.iters)
	case p.numQP < 1 || p.numQP > srqAddresses:
		return usagef("--num-qp %d: give 1 to %d", p.numQP, srqAddresses)
	case p.rxDepth < p.numQP+1 || p.rxDepth > limits.MaxQPWR:
		return usagef("--rx-depth %d: give %d to %d", p.rxDepth, p.numQP+1, limits.MaxQPWR)
	}
	if p.kind.qp == verbs.UD {
		p.pathMTU = portMTU
		if int(p.size) > portMTU.Bytes() {
			return usagef("--size %d: a datagram of this device has at most %v bytes", p.size, portMTU)
		}
		return nil
	}
	m, ok := verbs.MTUOf(p.mtu)
	if !ok {
		return usagef("--mtu %d: give 256, 512, 1024, 2048 or 4096", p.mtu)
	}
	if m > portMTU {
		return usagef("--mtu %d: this device's network carries at most %v", p.mtu, portMTU)
	}
	p.pathMTU = m
	return nil
}

// open makes the objects; length is that of the buffer.
func (p *pingpong) open(dev *verbs.Device, length int) (err error) {
	if p.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if p.mr, err = p.pd.AllocMR(length, verbs.LocalWrite); err != nil {
		return err
	}
	opt := &verbs.CQOptions{}
	if p.events {
		if p.channel, err = dev.CreateCompChannel(); err != nil {
			return err
		}
		opt.Channel = p.channel
	}
	if p.cq, err = dev.CreateCQ(p.rxDepth+p.numQP, opt); err != nil {
		return err
	}
	init := verbs.QPInit{Type: p.kind.qp, SendCQ: p.cq, RecvCQ: p.cq, MaxRecvWR: p.rxDepth}
	if p.kind.srq {
		if p.srq, err = p.pd.CreateSRQ(verbs.SRQInit{MaxWR: p.rxDepth}); err != nil {
			return err
		}
		init.SRQ, init.MaxRecvWR = p.srq, 0
	}
	for i := range p.numQP {
		qp, err := p.pd.CreateQP(init)
		if err != nil {
			return err
		}
		ep, err := qp.Endpoint(p.gid)
		if err != nil {
			if errors.Is(err, verbs.ErrNotFound) {
				return usagef("--gid-idx %d: the GID table has no such row: `ramjet devices -v %s` shows it", p.gid, dev.Name())
			}
			return err
		}
		p.qps, p.local = append(p.qps, qp), append(p.local, ep)
		p.index[ep.QPN] = i
	}
	p.pending = make([]uint8, p.numQP)
	p.mr.Do(p.fill)
	return nil
}

// fill writes what rdma-core's programs send: the same byte everywhere (0 with an SRQ), and
// 0 at the beginning of each page if that is going to be checked.
func (p *pingpong) fill(b []byte) {
	b = b[p.offset:]
	for i := range b {
		b[i] = p.expected(i)
	}
}

func (p *pingpong) expected(i int) byte {
	if p.kind.srq || p.check && i%pingpongPage == 0 {
		return 0
	}
	return pingpongFill
}

// verify checks the message that has gone to and fro.
func (p *pingpong) verify() (err error) {
	p.mr.Do(func(b []byte) {
		for i, got := range b[p.offset:][:p.size] {
			if want := p.expected(i); got != want {
				err = fmt.Errorf("invalid data: byte %d of %d is %#02x instead of %#02x", i, p.size, got, want)
				return
			}
		}
	})
	return err
}

// connect takes the queue pairs to RTS and posts receives, which no queue pair takes before
// INIT. The peer sends nothing before it knows that we have come as far.
func (p *pingpong) connect() (err error) {
	if p.kind.qp == verbs.UD {
		if err := p.qps[0].StartUD(pingpongQKey); err != nil {
			return err
		}
		if p.ah, err = p.pd.CreateAH(verbs.AHAttr{DGID: p.remote[0].GID, SGIDIndex: p.gid}); err != nil {
			return err
		}
		return p.postReceives()
	}
	for i, qp := range p.qps {
		if err := qp.Connect(p.local[i], p.remote[i], &verbs.ConnectOptions{SGIDIndex: p.gid, MTU: p.pathMTU, RdAtomic: 1}); err != nil {
			return err
		}
	}
	return p.postReceives()
}

// postReceives fills the receive queue.
func (p *pingpong) postReceives() error {
	post := p.qps[0].PostRecv
	if p.srq != nil {
		post = p.srq.PostRecv
	}
	sgl := []verbs.SGE{p.mr.SGE(0, p.mr.Len())}
	for ; p.posted < p.rxDepth; p.posted++ {
		if err := post(&verbs.RecvWR{ID: recvID, SGL: sgl}); err != nil {
			return err
		}
	}
	return nil
}

func (p *pingpong) postSend(i int) error {
	wr := verbs.SendWR{ID: sendID, Op: verbs.Send, Flags: verbs.Signaled, SGL: []verbs.SGE{p.mr.SGE(p.offset, int(p.size))}}
	if p.kind.qp == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.ah, p.remote[0].QPN, pingpongQKey
	}
	p.pending[i] = sendID | recvID
	return p.qps[i].PostSend(&wr)
}

// bounce sends each message back until enough were sent and received.
func (p *pingpong) bounce(ctx context.Context, client bool) error {
	for i := range p.qps {
		p.pending[i] = recvID
		if client {
			if err := p.postSend(i); err != nil {
				return err
			}
		}
	}
	for p.recvd < p.iters || p.sent < p.iters {
		n, err := p.completions(ctx)
		if err != nil {
			return err
		}
		for i := 0; i < n && (p.recvd < p.iters || p.sent < p.iters); i++ { // a peer that has finished may end its stream, and flush ours
			if err := p.handle(&p.wcs[i]); err != nil {
				return err
			}
		}
	}
	return p.cq.ReqNotify(false) // no more polling: the last acknowledgement goes out
}

// handle counts a completion and sends the next message of its queue pair.
func (p *pingpong) handle(wc *verbs.WC) error {
	if err := wc.Status.Err(); err != nil {
		return fmt.Errorf("%v after %d messages sent and %d received", wc.Status, p.sent, p.recvd)
	}
	i, ok := p.index[wc.QPN]
	if !ok {
		return fmt.Errorf("completion of unknown queue pair %#06x", uint32(wc.QPN))
	}
	if wc.ID == sendID {
		p.sent++
	} else {
		p.recvd++
		if p.posted--; p.posted <= p.numQP {
			if err := p.postReceives(); err != nil {
				return err
			}
		}
	}
	p.pending[i] &^= uint8(wc.ID)
	if p.pending[i] == 0 && p.sent < p.iters {
		return p.postSend(i)
	}
	return nil
}

// completions takes at least one completion, polling or sleeping.
func (p *pingpong) completions(ctx context.Context) (int, error) {
	if p.events {
		return p.sleep(ctx)
	}
	var since time.Time
	for polls := 1; ; polls++ {
		if n := p.cq.Poll(p.wcs[:]); n > 0 {
			return n, nil
		}
		if polls%4096 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if now := time.Now(); since.IsZero() {
			since = now
		} else if now.Sub(since) > pingpongSilence {
			return 0, p.silent()
		}
	}
}

// sleep waits for an event and takes the completions that it stands for.
func (p *pingpong) sleep(ctx context.Context) (int, error) {
	limit, cancel := context.WithTimeout(ctx, pingpongSilence)
	defer cancel()
	for {
		// Ask first: what completes after it raises an event, what came before is there.
		if err := p.cq.ReqNotify(false); err != nil {
			return 0, err
		}
		if n := p.cq.Poll(p.wcs[:]); n > 0 {
			return n, nil
		}
		if _, err := p.channel.Wait(limit); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if limit.Err() != nil {
				return 0, p.silent()
			}
			return 0, err
		}
	}
}

func (p *pingpong) silent() error {
	err := fmt.Errorf("nothing came from the peer for %v, after %d messages sent and %d received", pingpongSilence, p.sent, p.recvd)
	if p.kind.qp != verbs.RC {
		return fmt.Errorf("%w: %v does not repeat what is lost", err, p.kind.qp)
	}
	return err
}
