// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// bulkResult is how a transfer ended that a test has disturbed.
type bulkResult struct {
	Posted, Completed int
	Status            string        // the first completion without success
	Events            []string      // of the connection, after it was made
	DeviceEvents      []string      // such as a port that is down
	Closing           time.Duration // of the device and all that is on it
	Error             string        // a failure of the test
}

const (
	bulkDepth   = 16
	bulkMessage = 4096
	// bulkPatience bounds the time from the end of the link to the last completion.
	bulkPatience = 2 * time.Minute
)

// bulk is one side of a transfer.
type bulk struct {
	dev *verbs.Device
	ch  *cm.EventChannel
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	bulkResult
}

func newBulk(dev *verbs.Device) (b *bulk, err error) {
	b = &bulk{dev: dev, ch: cm.NewEventChannel()}
	if b.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if b.cq, err = dev.CreateCQ(8*bulkDepth, nil); err != nil {
		return nil, err
	}
	b.mr, err = b.pd.RegMR(make([]byte, bulkMessage), verbs.LocalWrite)
	return b, err
}

func (b *bulk) queue(id *cm.ID) (*verbs.QP, error) {
	return id.CreateQP(b.pd, verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: b.cq,
		Cap: verbs.QPCap{MaxSendWR: bulkDepth, MaxRecvWR: 4 * bulkDepth, MaxSendSGE: 1, MaxRecvSGE: 1}})
}

func (b *bulk) await(ctx context.Context, want cm.EventType) (*cm.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	e, err := b.ch.Get(ctx)
	if err == nil && e.Type != want {
		err = fmt.Errorf("event %q, want %q: %v", e.Type, want, e.Err)
	}
	return e, err
}

// bulkSend connects, sends, and returns once the first message has arrived. It goes on until a completion has no
// success, waits for the rest, and closes the device.
func bulkSend(ctx context.Context, dev *verbs.Device, to netip.AddrPort, result chan<- bulkResult) error {
	b, err := newBulk(dev)
	if err != nil {
		return err
	}
	id, err := cm.NewID(b.ch, dev, cm.TCP)
	if err != nil {
		return err
	}
	if err := id.ResolveAddr(netip.AddrPort{}, to, time.Minute); err != nil {
		return err
	}
	if _, err := b.await(ctx, cm.AddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(time.Minute); err != nil {
		return err
	}
	if _, err := b.await(ctx, cm.RouteResolved); err != nil {
		return err
	}
	qp, err := b.queue(id)
	if err != nil {
		return err
	}
	if err := id.Connect(nil); err != nil {
		return err
	}
	if _, err := b.await(ctx, cm.Established); err != nil {
		return err
	}
	started := make(chan struct{})
	post := func() error {
		return qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{b.mr.SGE(0, bulkMessage)}})
	}
	go func() { result <- b.run(ctx, post, started) }()
	select {
	case <-started:
		return nil
	case <-time.After(time.Minute):
		return errors.New("nothing arrives")
	}
}

// bulkReceive listens, takes one connection, and receives as bulkSend sends. It returns when it listens.
func bulkReceive(dev *verbs.Device, at netip.AddrPort, result chan<- bulkResult) error {
	b, err := newBulk(dev)
	if err != nil {
		return err
	}
	l, err := cm.NewID(b.ch, dev, cm.TCP)
	if err != nil {
		return err
	}
	if err := l.Bind(at); err != nil {
		return err
	}
	if err := l.Listen(4); err != nil {
		return err
	}
	go func() {
		ctx := context.Background()
		e, err := b.await(ctx, cm.ConnectRequest)
		if err != nil {
			result <- bulkResult{Error: err.Error()}
			return
		}
		qp, err := b.queue(e.ID)
		post := func() error { return qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, bulkMessage)}}) }
		// a sender that finds no receive takes the guest's connection manager down: see README.md
		for range 4 * bulkDepth {
			if err == nil {
				err = post()
			}
		}
		if b.Posted = 4 * bulkDepth; err == nil {
			err = e.ID.Accept(nil)
		}
		if err == nil {
			_, err = b.await(ctx, cm.Established)
		}
		if err != nil {
			result <- bulkResult{Error: err.Error()}
			return
		}
		result <- b.run(ctx, post, make(chan struct{}))
	}()
	return nil
}

// run posts as long as all goes well. started is closed with the first completion.
func (b *bulk) run(ctx context.Context, post func() error, started chan struct{}) bulkResult {
	told := make(chan string, 64)
	driver.OnEvent(b.dev, func(t verbs.EventType, port int) {
		select {
		case told <- t.String():
		default:
		}
	})
	var wcs [bulkDepth]verbs.WC
	for b.Posted < bulkDepth && post() == nil {
		b.Posted++
	}
	for b.Completed < b.Posted {
		wait, cancel := context.WithTimeout(ctx, bulkPatience)
		n, err := b.cq.Wait(wait, wcs[:])
		cancel()
		if err != nil {
			b.Error = fmt.Sprintf("%d of %d work requests have completed: %v", b.Completed, b.Posted, err)
			break
		}
		for _, wc := range wcs[:n] {
			if b.Completed++; b.Completed == 1 {
				close(started)
			}
			switch {
			case wc.Status == verbs.StatusSuccess && b.Status == "":
				if post() == nil {
					b.Posted++
				}
			case b.Status == "" && wc.Status != verbs.StatusSuccess:
				b.Status = wc.Status.String()
			}
		}
	}
	event, cancel := context.WithTimeout(ctx, bulkPatience)
	if e, err := b.ch.Get(event); err == nil {
		b.Events = append(b.Events, e.Type.String())
	}
	cancel()
	for len(told) > 0 {
		b.DeviceEvents = append(b.DeviceEvents, <-told)
	}
	begin := time.Now()
	closed := make(chan struct{})
	go func() { defer close(closed); b.dev.Close() }()
	select {
	case <-closed:
		b.Closing = time.Since(begin)
	case <-time.After(bulkPatience):
		b.Error += " Close does not return"
	}
	return b.bulkResult
}
