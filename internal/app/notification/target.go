// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// looksPerCheck is how many looks a target does before it asks whether it is over.
const looksPerCheck = 64

// target is the target device's objects, and the bytes that it has seen.
type target struct {
	dev     *verbs.Device
	pd      *verbs.PD
	mr      *verbs.MR // the peers' bytes
	channel *verbs.CompChannel
	cq      *verbs.CQ
	srq     *verbs.SRQ
	wcs     [batch]verbs.WC

	stride int
	peers  int    // whose bytes are polled
	seen   []byte // by peer: its byte, when last looked at
	from   int    // where the next look begins
	found  int    // the peer that the last look found; -1: none
	scan   func(b []byte)
	asked  bool // for an event that has not arrived
}

func (t *target) create(g *group, most int) (err error) {
	if t.pd, err = t.dev.AllocPD(); err != nil {
		return err
	}
	g.close = append(g.close, t.pd.Close)
	if t.mr, err = t.pd.AllocMR(t.stride*most, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return err
	}
	g.close = append(g.close, t.mr.Close)
	if t.channel, err = t.dev.CreateCompChannel(); err != nil {
		return err
	}
	g.close = append(g.close, t.channel.Close)
	if t.cq, err = t.dev.CreateCQ(most+1, &verbs.CQOptions{Channel: t.channel}); err != nil {
		return err
	}
	g.close = append(g.close, t.cq.Close)
	if t.srq, err = t.pd.CreateSRQ(verbs.SRQInit{MaxWR: most}); err != nil {
		return err
	}
	g.close = append(g.close, t.srq.Close)
	for range most { // each peer may have one message on its way
		if err := t.srq.PostRecv(&verbs.RecvWR{}); err != nil {
			return err
		}
	}
	t.scan = t.scanBytes // once: a method value is an allocation
	return nil
}

// scanBytes looks for a byte that has changed, each time from where the last look has ended.
func (t *target) scanBytes(b []byte) {
	t.found = -1
	peer := t.from
	for range t.peers {
		if v := b[peer*t.stride]; v != t.seen[peer] {
			t.seen[peer], t.found = v, peer
			t.from = peer
			return
		}
		if peer++; peer == t.peers {
			peer = 0
		}
	}
}

// lookBytes polls the device, then looks at the bytes.
func (t *target) lookBytes() (found bool, err error) {
	if t.cq.Poll(t.wcs[:]) > 0 {
		return false, fmt.Errorf("a WRITE without immediate data has completed at its target: %v", &t.wcs[0])
	}
	t.mr.Do(t.scan)
	return t.found >= 0, nil
}

// lookImmediate polls the completion queue.
func (t *target) lookImmediate() (found bool, err error) {
	n := t.cq.Poll(t.wcs[:])
	if n == 0 {
		return false, nil
	}
	wc := &t.wcs[0]
	switch {
	case wc.Status != verbs.StatusSuccess:
		return false, fmt.Errorf("the target's queue pair %d: %w", wc.QPN, wc.Err())
	case n > 1 || wc.Op != verbs.WCRecvWriteImm:
		return false, fmt.Errorf("%d completions at the target, the first of %v: a single WRITE was posted", n, wc.Op)
	}
	t.found = int(wc.Imm)
	return true, nil
}

// await waits in a way until a peer has written, and sets found. ready is called before it begins to
// wait.
func (t *target) await(ctx context.Context, w Way, ready func()) error {
	if w == Event {
		return t.sleep(ctx, ready)
	}
	look := t.lookBytes
	if w == Immediate {
		look = t.lookImmediate
	}
	ready()
	for n := 1; ; n++ {
		if found, err := look(); found || err != nil {
			return err
		}
		if n%looksPerCheck == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// sleep is await for completion events.
func (t *target) sleep(ctx context.Context, ready func()) error {
	for ; ; ready = func() {} {
		if !t.asked {
			if err := t.cq.ReqNotify(false); err != nil {
				return err
			}
			t.asked = true
		}
		ready()
		if found, err := t.lookImmediate(); found || err != nil { // WRITEs that came before the request raise no event
			return err
		}
		if _, err := t.channel.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
		t.asked = false
		if found, err := t.lookImmediate(); found || err != nil {
			return err
		}
	}
}

// catchUp takes the present bytes as seen.
func (t *target) catchUp() {
	t.mr.Do(func(b []byte) {
		for peer := range t.peers {
			t.seen[peer] = b[peer*t.stride]
		}
	})
}

// byteOf returns a peer's byte.
func (t *target) byteOf(peer int) (v byte) {
	t.mr.Do(func(b []byte) { v = b[peer*t.stride] })
	return v
}
