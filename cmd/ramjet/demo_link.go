// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/netio/baseline"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// message is one line of JSON between the two processes of a demo. The first process asks,
// the second answers.
type message struct {
	Ask    string // what the first process wants, one of the constants below
	Error  string `json:",omitempty"` // an answer: why not
	Hello  *hello `json:",omitempty"`
	Step   *step  `json:",omitempty"`
	TCP    *baseline.Config
	Listen netip.AddrPort // answer to askTCP: where to connect to
	Bytes  int64          // answer to askVerify: how many bytes were compared
}

const (
	askHello  = "hello"  // open a device and connect
	askStep   = "step"   // prepare for a step; then take part in it
	askVerify = "verify" // the step is over: compare every byte
	askTCP    = "tcp"    // answer a measurement over TCP
)

// hello is what one side has to know of the other.
type hello struct {
	Candidates []netip.Addr // first process: addresses for the second one to try
	Kind       string       // first process: of device
	Device     string
	RC, UC, UD verbs.Endpoint
	In, Out    verbs.Remote
	Words      verbs.Remote
}

// errPeerGone says that the other process has ended.
var errPeerGone = errors.New("the other process has ended")

// pipe carries messages between the processes.
type pipe struct {
	out *json.Encoder
	in  chan message
}

// newPipe reads messages from r; gone is called when the other process says that it failed,
// and once there are no more.
func newPipe(r io.Reader, w io.Writer, gone func(error)) *pipe {
	p := &pipe{out: json.NewEncoder(w), in: make(chan message, 4)}
	go func() {
		defer close(p.in)
		for dec := json.NewDecoder(r); ; {
			var m message
			if err := dec.Decode(&m); err != nil {
				gone(errPeerGone)
				return
			}
			if err := m.err(); err != nil {
				gone(err)
			}
			p.in <- m
		}
	}()
	return p
}

// receive returns the next message and calls idle over and over until it is there; without
// idle it sleeps.
func (p *pipe) receive(ctx context.Context, idle func()) (message, error) {
	for idle != nil {
		select {
		case m, ok := <-p.in:
			return p.checked(m, ok)
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		default:
			idle()
		}
	}
	select {
	case m, ok := <-p.in:
		return p.checked(m, ok)
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

func (p *pipe) checked(m message, ok bool) (message, error) {
	if !ok {
		return m, errPeerGone
	}
	return m, m.err()
}

// err is what the second process complains of.
func (m *message) err() error {
	if m.Error == "" {
		return nil
	}
	return fmt.Errorf("the second process: %s", m.Error)
}

// send sends a message; that fails only if the other process has ended.
func (p *pipe) send(m message) error {
	if p.out.Encode(m) != nil {
		return errPeerGone
	}
	return nil
}

// ask sends a message and waits for its answer.
func (p *pipe) ask(ctx context.Context, m message, idle func()) (message, error) {
	if err := p.send(m); err != nil {
		return m, err
	}
	return p.receive(ctx, idle)
}
