// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	qKey     = verbs.QKey(0x11111111)
	fillByte = 0x7b
	pageSize = 4096
	silence  = 30 * time.Second // of the peer, before a side gives up
	grhLen   = 40

	sendID, recvID = 1, 2 // of work requests, and bits of the completions that a queue pair waits for
)

// pingpong is one side of a pingpong.
type pingpong struct {
	Config
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
	index         map[verbs.QPN]int // by queue pair number
	pending       []uint8           // the completions that each queue pair waits for before its next send
	posted        int               // receives
	sent, recvd   int
	wcs           [32]verbs.WC
}

// newPingpong creates everything that does not need the peer.
func newPingpong(c Config, dev *verbs.Device) (*pingpong, error) {
	p := &pingpong{Config: c, index: make(map[verbs.QPN]int)}
	port, err := dev.Port(1)
	if err != nil {
		return nil, err
	}
	if err := p.checkFlags(port.ActiveMTU, dev.Query()); err != nil {
		return nil, err
	}
	length := c.Size
	if c.Kind.qp == verbs.UD {
		p.offset = grhLen
		length = grhLen + port.ActiveMTU.Bytes() // the peer's messages may be longer than ours
	}
	return p, p.open(dev, length)
}

func (p *pingpong) checkFlags(portMTU verbs.MTU, limits verbs.DeviceAttr) error {
	switch {
	case p.Size < 1 || uint64(p.Size) > limits.MaxMsgSize:
		return usage.Errorf("--size %d: give 1 to %d bytes", p.Size, limits.MaxMsgSize)
	case p.Iters < 1:
		return usage.Errorf("--iters %d: give at least 1", p.Iters)
	case p.NumQP < 1 || p.NumQP > srqAddresses:
		return usage.Errorf("--num-qp %d: give 1 to %d", p.NumQP, srqAddresses)
	case p.RxDepth < p.NumQP+1 || p.RxDepth > limits.MaxQPWR:
		return usage.Errorf("--rx-depth %d: give %d to %d", p.RxDepth, p.NumQP+1, limits.MaxQPWR)
	}
	if p.Kind.qp == verbs.UD {
		p.pathMTU = portMTU
		if p.Size > portMTU.Bytes() {
			return usage.Errorf("--size %d: a datagram of this device has at most %v bytes", p.Size, portMTU)
		}
		return nil
	}
	m, ok := verbs.MTUOf(p.MTU)
	if !ok {
		return usage.Errorf("--mtu %d: give 256, 512, 1024, 2048 or 4096", p.MTU)
	}
	if m > portMTU {
		return usage.Errorf("--mtu %d: this device's network carries at most %v", p.MTU, portMTU)
	}
	p.pathMTU = m
	return nil
}

// open creates the objects; length is that of the buffer.
func (p *pingpong) open(dev *verbs.Device, length int) (err error) {
	if p.GID < 0 {
		row, err := dev.BestGID(netip.Addr{})
		if err != nil {
			return err
		}
		p.GID = row.Index
	}
	if p.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if p.mr, err = p.pd.AllocMR(length, verbs.LocalWrite); err != nil {
		return err
	}
	opt := &verbs.CQOptions{}
	if p.Events {
		if p.channel, err = dev.CreateCompChannel(); err != nil {
			return err
		}
		opt.Channel = p.channel
	}
	if p.cq, err = dev.CreateCQ(p.RxDepth+p.NumQP, opt); err != nil {
		return err
	}
	init := verbs.QPInit{Type: p.Kind.qp, SendCQ: p.cq, RecvCQ: p.cq, Cap: verbs.QPCap{MaxRecvWR: p.RxDepth}}
	if p.Kind.srq {
		if p.srq, err = p.pd.CreateSRQ(verbs.SRQInit{MaxWR: p.RxDepth}); err != nil {
			return err
		}
		init.SRQ, init.Cap.MaxRecvWR = p.srq, 0
	}
	for i := range p.NumQP {
		qp, err := p.pd.CreateQP(init)
		if err != nil {
			return err
		}
		ep, err := qp.Endpoint(p.GID)
		if err != nil {
			if errors.Is(err, verbs.ErrNotFound) {
				return usage.Errorf("--gid-idx %d: the GID table has no such row: `ramjet devices -v %s` shows it",
					p.GID, dev.Name())
			}
			return err
		}
		p.qps, p.local = append(p.qps, qp), append(p.local, ep)
		p.index[ep.QPN] = i
	}
	p.pending = make([]uint8, p.NumQP)
	p.mr.Do(p.fill)
	return nil
}

// fill writes the data of rdma-core's programs: the same byte everywhere (0 with an SRQ), and 0 at
// the beginning of each page if that will be checked.
func (p *pingpong) fill(b []byte) {
	b = b[p.offset:]
	for i := range b {
		b[i] = p.expected(i)
	}
}

func (p *pingpong) expected(i int) byte {
	if p.Kind.srq || p.Check && i%pageSize == 0 {
		return 0
	}
	return fillByte
}

// verify checks the message after all round trips.
func (p *pingpong) verify() (err error) {
	p.mr.Do(func(b []byte) {
		for i, got := range b[p.offset:][:p.Size] {
			if want := p.expected(i); got != want {
				err = fmt.Errorf("invalid data: byte %d of %d is %#02x instead of %#02x", i, p.Size, got, want)
				return
			}
		}
	})
	return err
}

// connect takes the queue pairs to RTS and posts receives, which no queue pair takes before INIT.
// The peer sends nothing before it knows that we are ready.
func (p *pingpong) connect() (err error) {
	if p.Kind.qp == verbs.UD {
		if err := p.qps[0].StartUD(qKey); err != nil {
			return err
		}
		if p.ah, err = p.pd.CreateAH(p.local[0].To(p.remote[0], p.GID)); err != nil {
			return err
		}
		return p.postReceives()
	}
	for i, qp := range p.qps {
		if err := qp.Connect(p.local[i], p.remote[i],
			&verbs.ConnectOptions{SGIDIndex: p.GID, MTU: p.pathMTU, RdAtomic: 1}); err != nil {
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
	for ; p.posted < p.RxDepth; p.posted++ {
		if err := post(&verbs.RecvWR{ID: recvID, SGL: sgl}); err != nil {
			return err
		}
	}
	return nil
}

func (p *pingpong) postSend(i int) error {
	wr := verbs.SendWR{ID: sendID, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{p.mr.SGE(p.offset, p.Size)}}
	if p.Kind.qp == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.ah, p.remote[0].QPN, qKey
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
	for p.recvd < p.Iters || p.sent < p.Iters {
		n, err := p.completions(ctx)
		if err != nil {
			return err
		}
		// a peer that has finished may end its stream, and flush ours
		for i := 0; i < n && (p.recvd < p.Iters || p.sent < p.Iters); i++ {
			if err := p.handle(&p.wcs[i]); err != nil {
				return err
			}
		}
	}
	return p.cq.ReqNotify(false) // after the last poll: sends the last acknowledgement
}

// handle counts a completion and sends the next message of its queue pair.
func (p *pingpong) handle(wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
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
		if p.posted--; p.posted <= p.NumQP {
			if err := p.postReceives(); err != nil {
				return err
			}
		}
	}
	p.pending[i] &^= uint8(wc.ID)
	if p.pending[i] == 0 && p.sent < p.Iters {
		return p.postSend(i)
	}
	return nil
}

// completions takes at least one completion, polling or sleeping.
func (p *pingpong) completions(ctx context.Context) (int, error) {
	if p.Events {
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
		} else if now.Sub(since) > silence {
			return 0, p.silent()
		}
	}
}

// sleep waits for an event and takes the completions that it stands for.
func (p *pingpong) sleep(ctx context.Context) (int, error) {
	limit, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	for {
		// Request first: later completions raise an event, earlier ones are already there.
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
	err := fmt.Errorf("nothing came from the peer for %s, after %d messages sent and %d received",
		units.Period(silence), p.sent, p.recvd)
	if p.Kind.qp != verbs.RC {
		return fmt.Errorf("%w: %v does not repeat what is lost", err, p.Kind.qp)
	}
	return err
}
