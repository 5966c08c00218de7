// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// setup creates the endpoint of a connection that is being established, and negotiates.
type setup struct {
	opt      Options
	accepts  bool
	request  []byte // private data of the connection request
	released func()
	ep       *endpoint
}

// run is the function for cm.WithSetup. The receive of slot 0 is for the negotiation.
func (s *setup) run(id *cm.ID, p *cm.ConnParam) (err error) {
	s.undo() // from an attempt at another address
	if s.ep, err = newEndpoint(id.Device(), s.opt, id.CreateQP); err != nil {
		s.ep = nil
		return err
	}
	if err := s.ep.postRecv(0); err != nil {
		return err
	}
	p.RetryCount, p.RNRRetryCount = 7, 7
	if id.Device().Query().Transport == verbs.TransportIWARP {
		s.depths(p)
	}
	return id.SetRNRRetry(7)
}

// depths handles the private data by which Linux says over iWARP how many READs a side takes and makes: two numbers of
// 4 bytes in network byte order, IRD and ORD. The accepting side sends them to peers that do.
func (s *setup) depths(p *cm.ConnParam) {
	if s.accepts {
		if len(s.request) != 8 {
			return
		}
		p.InitiatorDepth = uint8(min(uint32(p.InitiatorDepth), binary.BigEndian.Uint32(s.request)))
	}
	p.PrivateData = binary.BigEndian.AppendUint32(nil, uint32(p.ResponderResources))
	p.PrivateData = binary.BigEndian.AppendUint32(p.PrivateData, uint32(p.InitiatorDepth))
}

// undo frees the endpoint once the queue pair is gone with its id.
func (s *setup) undo() {
	if s.ep != nil {
		s.ep.close()
		s.ep = nil
	}
}

// finish negotiates on a connection that was established, or not.
func (s *setup) finish(ctx context.Context, link *cm.Conn, err error) (*Conn, error) {
	if err == nil {
		var c *Conn
		if c, err = s.negotiate(ctx, link); err == nil {
			c.start()
			return c, nil
		}
		link.Close()
	}
	s.undo()
	return nil, err
}

// errNegotiate is the cause when the negotiation takes too long.
var errNegotiate = errors.New("the peer did not negotiate in time")

// negotiate exchanges the first messages.
func (s *setup) negotiate(ctx context.Context, link *cm.Conn) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opt.Negotiate, errNegotiate)
	defer cancel()
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	go func() {
		select {
		case <-link.Done():
			gone(fmt.Errorf("the peer closed the connection before it negotiated: %w", cm.ErrDisconnected))
		case <-ctx.Done():
		}
	}()
	f := flow{limit: s.opt.RecvCredits}
	if s.accepts {
		return s.respond(ctx, link, f)
	}
	q := request(&s.opt)
	if err := s.ep.postInline(q.Append(nil)); err != nil {
		return nil, err
	}
	n, sent, err := s.first(ctx)
	if err != nil {
		return nil, err
	}
	l, err := handleResponse(&s.opt, s.ep.received(0, n), &f)
	if err != nil {
		return nil, err
	}
	return s.conn(link, l, f, sent), nil
}

// respond answers a Negotiate Request.
func (s *setup) respond(ctx context.Context, link *cm.Conn, f flow) (*Conn, error) {
	n, _, err := s.first(ctx)
	if err != nil {
		return nil, err
	}
	l, r, err := handleRequest(&s.opt, s.ep.received(0, n), &f)
	if errors.Is(err, ErrVersion) {
		if e := s.ep.postInline(r.Append(nil)); e == nil {
			s.next(ctx) // so that it is not cut off
		}
	}
	if err != nil {
		return nil, err
	}
	c := s.conn(link, l, f, false)
	if err := c.postReceives(); err != nil {
		return nil, err
	}
	r.CreditsGranted = c.flow.grant()
	return c, s.ep.postInline(r.Append(nil))
}

// conn returns the Conn of a connection that has negotiated. sent says that the message of this side has completed.
func (s *setup) conn(link *cm.Conn, l limits, f flow, sent bool) *Conn {
	c := newConn(s.ep, link, l, f, s.released)
	if !sent {
		c.sends, c.controls = 1, 1
	}
	return c
}

// first waits for the first message and returns its length, and whether a message of this side has completed before.
func (s *setup) first(ctx context.Context) (n int, sent bool, err error) {
	for {
		wc, err := s.next(ctx)
		if err != nil {
			return 0, sent, err
		}
		if wc.ID&idMask == idRecv {
			return int(wc.ByteLen), sent, nil
		}
		sent = true
	}
}

// next returns the next completion, of which there are at most two: of the receive and of a message of this side.
func (s *setup) next(ctx context.Context) (wc verbs.WC, err error) {
	wcs := make([]verbs.WC, 1)
	if n, err := s.ep.cq.Wait(ctx, wcs); n == 0 && s.ep.cq.Poll(wcs) == 0 { // it may have come before the peer left
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc, err
	}
	if wcs[0].Status != verbs.StatusSuccess {
		return wc, fmt.Errorf("negotiating: %w", statusErr(&wcs[0], s.ep.qp))
	}
	return wcs[0], nil
}
