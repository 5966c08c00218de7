// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// Serve is the second process's half: it answers the first one until that closes the link. Its
// device is among the devices that the first one offers.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open OpenFunc) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := serve(ctx, newLink(in, out, cancel), open)
	if errors.Is(err, errPeerGone) {
		return nil
	}
	return err
}

func serve(ctx context.Context, l *link, open OpenFunc) error {
	m, err := l.receive(ctx, nil)
	if err != nil {
		return err
	}
	if m.Hello == nil {
		return fmt.Errorf("this is a part of `ramjet demo`, which starts it")
	}
	s, err := greet(m.Hello, open)
	if err == nil {
		defer s.dev.Close()
		if s.listen == nil { // first, so that an error is in the answer
			err = s.connect(ctx, m.Hello)
		}
	}
	if err != nil {
		return l.send(message{Ask: askHello, Error: err.Error()})
	}
	if err := l.send(message{Ask: askHello, Hello: &s.local}); err != nil {
		return err
	}
	if s.listen != nil { // the first process dials now
		if err := s.connect(ctx, m.Hello); err != nil {
			return err
		}
	}
	var shared *side
	defer func() {
		if shared != nil {
			shared.dev.Close()
		}
	}()
	on := func(st *step) *side {
		if st.Shared && shared != nil {
			return shared
		}
		return s
	}
	var st *step
	for {
		idle := s.idle
		if st != nil && st.Stream {
			idle = nil
		}
		m, err := l.receive(ctx, idle)
		if err != nil {
			return err
		}
		switch {
		case m.Ask == askHello && m.Shared && m.Hello != nil && shared == nil:
			if shared, err = greet(m.Hello, openShared); err != nil {
				break
			}
			if err = shared.connect(ctx, m.Hello); err == nil {
				err = l.send(message{Ask: m.Ask, Hello: &shared.local})
			}
		case m.Ask == askStep && m.Step != nil:
			st = m.Step
			err = on(st).takePart(ctx, l, st)
		case m.Ask == askVerify && st != nil:
			var n int64
			if n, err = on(st).verify(st); err == nil {
				err = l.send(message{Ask: m.Ask, Bytes: n})
			}
		case m.Ask == askTCP && m.TCP != nil:
			err = s.answerTCP(ctx, l, *m.TCP)
		default:
			err = fmt.Errorf("unknown message %q", m.Ask)
		}
		if err != nil {
			l.send(message{Ask: m.Ask, Error: err.Error()})
			return err
		}
	}
}

// greet opens one of the devices offered.
func greet(h *hello, open OpenFunc) (*side, error) {
	dev, _, err := openFirst(open, h.Candidates)
	if err != nil {
		return nil, err
	}
	s, err := newSide(second, dev)
	if err != nil {
		dev.Close()
		return nil, err
	}
	return s, nil
}

// takePart is the second process's part in a step.
func (s *side) takePart(ctx context.Context, l *link, st *step) error {
	if err := s.prepare(st); err != nil {
		return err
	}
	if err := l.send(message{Ask: askStep}); err != nil {
		return err
	}
	return s.echo(ctx, st)
}

// answerTCP is the second process's part in a measurement over TCP.
func (s *side) answerTCP(ctx context.Context, l *link, c baseline.Config) error {
	srv, err := baseline.Listen(c, netip.AddrPortFrom(s.tcpAddress(), 0))
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := l.send(message{Ask: askTCP, Listen: srv.Addr()}); err != nil {
		return err
	}
	return srv.Serve(ctx)
}
