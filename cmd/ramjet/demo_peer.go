// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/netio/baseline"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// demoPeerName is the hidden command that is the demo's second process.
const demoPeerName = "demo-peer"

func newDemoPeerCmd() *cobra.Command {
	c := &cobra.Command{Use: demoPeerName, Short: "The second process of demo", Hidden: true, Args: cobra.NoArgs}
	return leaf(c, func(c *cobra.Command, _ []string) error {
		// The first process decides when it is over; without it this one ends by itself.
		signal.Ignore(os.Interrupt)
		signal.Reset(syscall.SIGTERM)
		err := serveDemo(context.Background(), os.Stdin, os.Stdout)
		if errors.Is(err, errPeerGone) {
			return nil
		}
		return err
	})
}

// serveDemo answers the first process until that closes the pipe.
func serveDemo(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	p := newPipe(in, out, cancel)
	m, err := p.receive(ctx, nil)
	if err != nil {
		return err
	}
	if m.Hello == nil {
		return fmt.Errorf("this is a part of `ramjet demo`, which starts it")
	}
	s, err := greet(m.Hello)
	if err != nil {
		return p.send(message{Ask: askHello, Error: err.Error()})
	}
	defer s.dev.Close()
	if err := p.send(message{Ask: askHello, Hello: &s.local}); err != nil {
		return err
	}
	var st *step
	for {
		idle := s.idle
		if st != nil && st.Stream {
			idle = nil
		}
		m, err := p.receive(ctx, idle)
		if err != nil {
			return err
		}
		switch {
		case m.Ask == askStep && m.Step != nil:
			st = m.Step
			err = s.takePart(ctx, p, st)
		case m.Ask == askVerify && st != nil:
			var n int64
			if n, err = s.verify(st); err == nil {
				err = p.send(message{Ask: m.Ask, Bytes: n})
			}
		case m.Ask == askTCP && m.TCP != nil:
			err = s.answerTCP(ctx, p, *m.TCP)
		default:
			err = fmt.Errorf("unknown message %q", m.Ask)
		}
		if err != nil {
			p.send(message{Ask: m.Ask, Error: err.Error()})
			return err
		}
	}
}

// greet opens a device on one of the addresses offered and connects it.
func greet(h *hello) (*side, error) {
	dev, err := openFirst(h.Kind, h.Candidates, "", io.Discard)
	if err != nil {
		return nil, err
	}
	s, err := newSide(second, dev.Device)
	if err == nil {
		err = s.connect(h)
	}
	if err != nil {
		dev.Close()
		return nil, err
	}
	return s, nil
}

// takePart is the second process's part of a step.
func (s *side) takePart(ctx context.Context, p *pipe, st *step) error {
	if err := s.prepare(st); err != nil {
		return err
	}
	if err := p.send(message{Ask: askStep}); err != nil {
		return err
	}
	return s.echo(ctx, st)
}

// answerTCP is the second process's part of a measurement over TCP.
func (s *side) answerTCP(ctx context.Context, p *pipe, c baseline.Config) error {
	srv, err := baseline.Listen(c, netip.AddrPortFrom(s.local.RC.GID.Addr(), 0))
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := p.send(message{Ask: askTCP, Listen: srv.Addr()}); err != nil {
		return err
	}
	return srv.Serve(ctx)
}

// demoDevice is a device of the demo with its recording.
type demoDevice struct {
	*verbs.Device
	rest []netip.Addr // addresses that were not tried
	done func() error
}

// openFirst opens the first address that is free.
func openFirst(kind string, addrs []netip.Addr, pcap string, log io.Writer) (*demoDevice, error) {
	err := errors.New("no address to use: the demo needs two IPv4 addresses of this host")
	for i, a := range addrs {
		d := &demoDevice{rest: addrs[i+1:]}
		if d.Device, d.done, err = openDevice(kind+":"+a.String(), pcap, log); err == nil {
			return d, nil
		}
	}
	return nil, err
}
