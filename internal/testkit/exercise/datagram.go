// SPDX-License-Identifier: Apache-2.0

package exercise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// unwanted is the private data of requests that the datagram service rejects.
const unwanted = "unwanted"

const answer = "an answer"

// datagrams is an id of a datagram service or of its client, with the objects of its queue pair.
type datagrams struct {
	ch *cm.EventChannel
	id *cm.ID
	pd *verbs.PD
	cq *verbs.CQ
	mr *verbs.MR
	qp *verbs.QP // the client's
}

// headerLen is the room for a GRH before each datagram (IBTA 11.4.1.2).
const headerLen = 40

func newDatagrams(dev *verbs.Device) (d *datagrams, err error) {
	d = &datagrams{ch: cm.NewEventChannel()}
	if d.id, err = cm.NewID(d.ch, dev, cm.UDP); err != nil {
		return nil, err
	}
	if d.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if d.cq, err = dev.CreateCQ(16, nil); err != nil {
		return nil, err
	}
	d.mr, err = d.pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	return d, err
}

// queue creates an id's queue pair, with a receive posted.
func (d *datagrams) queue(id *cm.ID) (*verbs.QP, error) {
	qp, err := id.CreateQP(d.pd, verbs.QPInit{Type: verbs.UD, SendCQ: d.cq, RecvCQ: d.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return nil, err
	}
	return qp, qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{d.mr.SGE(0, 2048)}})
}

func (d *datagrams) close() {
	if d.qp != nil {
		d.qp.Close()
	}
	d.id.Close()
	d.mr.Close()
	d.cq.Close()
	d.pd.Close()
	d.ch.Close()
}

func (d *datagrams) event(ctx context.Context, want cm.EventType) (*cm.Event, error) {
	e, err := d.ch.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for %q: %w", want, err)
	}
	if e.Type != want {
		return e, fmt.Errorf("event %q, want %q: %w", e.Type, want, e.Err)
	}
	return e, nil
}

// serveDatagrams answers requests for a service until ctx ends. Each has a queue pair of its own that takes one
// datagram and does not report it.
func serveDatagrams(ctx context.Context, dev *verbs.Device, at netip.AddrPort) error {
	d, err := newDatagrams(dev)
	if err != nil {
		return err
	}
	if err := d.id.Bind(at); err != nil {
		return err
	}
	if err := d.id.Listen(16); err != nil {
		return err
	}
	go func() {
		defer d.close()
		for {
			e, err := d.ch.Get(ctx)
			if err != nil {
				return
			}
			if e.Type != cm.ConnectRequest {
				continue
			}
			if bytes.HasPrefix(e.UD.PrivateData, []byte(unwanted)) {
				e.ID.Reject([]byte(unwanted))
				e.ID.Close()
				continue
			}
			if qp, err := d.queue(e.ID); err == nil {
				e.ID.Accept(&cm.ConnParam{PrivateData: []byte(answer)})
				go d.echo(ctx, e.ID, qp)
			}
		}
	}()
	return nil
}

// echo sends a datagram back to its sender.
func (d *datagrams) echo(ctx context.Context, id *cm.ID, qp *verbs.QP) {
	defer id.Close()
	defer qp.Close()
	var wcs [1]verbs.WC
	for {
		if n, err := d.cq.Wait(ctx, wcs[:]); err != nil || n == 0 {
			return
		}
		if wcs[0].Status != verbs.StatusSuccess || wcs[0].Op != verbs.WCRecv {
			return
		}
		header := make([]byte, headerLen)
		d.mr.Do(func(b []byte) { copy(header, b) })
		ah, err := d.pd.AHFromWC(1, &wcs[0], header)
		if err != nil {
			return
		}
		defer ah.Close()
		if qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{d.mr.SGE(headerLen, int(wcs[0].ByteLen)-headerLen)},
			AH:  ah, RemoteQPN: wcs[0].SrcQPN, RemoteQKey: cm.UDPQKey}) != nil {
			return
		}
	}
}

// ask resolves the service's address and asks for it.
func (d *datagrams) ask(ctx context.Context, to netip.AddrPort, private string) error {
	if err := d.id.ResolveAddr(netip.AddrPort{}, to, time.Minute); err != nil {
		return err
	}
	if _, err := d.event(ctx, cm.AddrResolved); err != nil {
		return err
	}
	if err := d.id.ResolveRoute(time.Minute); err != nil {
		return err
	}
	if _, err := d.event(ctx, cm.RouteResolved); err != nil {
		return err
	}
	var err error
	if d.qp, err = d.queue(d.id); err != nil {
		return err
	}
	return d.id.Connect(&cm.ConnParam{PrivateData: []byte(private)})
}

// service finds a datagram service, sends it a datagram, and gets it back.
func service(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	d, err := newDatagrams(dev)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.ask(ctx, netip.AddrPortFrom(server, port+portService), "hello"); err != nil {
		return err
	}
	e, err := d.event(ctx, cm.Established)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(e.UD.PrivateData, []byte(answer)) || e.UD.QKey != cm.UDPQKey {
		return fmt.Errorf("the service says %q, Q_Key %#x", e.UD.PrivateData, e.UD.QKey)
	}
	ah, err := d.pd.CreateAH(e.UD.AH)
	if err != nil {
		return err
	}
	defer ah.Close()
	want := pattern(500)
	d.mr.Do(func(b []byte) { copy(b[2048:], want) })
	if err := d.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{d.mr.SGE(2048, len(want))}, AH: ah,
		RemoteQPN: e.UD.QPN, RemoteQKey: e.UD.QKey}); err != nil {
		return err
	}
	var wcs [1]verbs.WC
	if _, err := d.cq.Wait(ctx, wcs[:]); err != nil {
		return err
	}
	if wcs[0].Status != verbs.StatusSuccess || int(wcs[0].ByteLen) != headerLen+len(want) {
		return fmt.Errorf("%v, %d bytes", wcs[0].Status, wcs[0].ByteLen)
	}
	same := false
	d.mr.Do(func(b []byte) { same = bytes.Equal(b[headerLen:headerLen+len(want)], want) })
	if !same {
		return errors.New("another datagram comes back")
	}
	return nil
}

// serviceRefused is rejected by a service, and finds none at another port.
func serviceRefused(ctx context.Context, dev *verbs.Device, server netip.Addr, port uint16) error {
	for _, c := range []struct {
		port    uint16
		private string
		reason  cm.RejectReason
	}{{port + portService, unwanted, cm.ReasonConsumer}, {1, "", cm.ReasonInvalidService}} {
		if err := func() error {
			d, err := newDatagrams(dev)
			if err != nil {
				return err
			}
			defer d.close()
			if err := d.ask(ctx, netip.AddrPortFrom(server, c.port), c.private); err != nil {
				return err
			}
			e, err := d.event(ctx, cm.Unreachable)
			if err != nil {
				return err
			}
			var why *cm.RejectError
			if !errors.As(e.Err, &why) || why.Reason != c.reason {
				return fmt.Errorf("port %d: %w", c.port, e.Err)
			}
			return nil
		}(); err != nil {
			return err
		}
	}
	return nil
}
