// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// message is one line of JSON between the two processes of a demo. The first process sends
// requests, the second one answers.
type message struct {
	Ask    string // the request: one of the constants below
	Error  string `json:",omitempty"` // in an answer: why it failed
	Hello  *hello `json:",omitempty"`
	Step   *step  `json:",omitempty"`
	Shared bool   `json:",omitempty"` // with askHello: of the devices over shared memory
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

// hello holds the facts that each side has to know of the other.
type hello struct {
	Candidates []string // first process: devices for the second one to try
	Device     string
	RC, UC, UD verbs.Endpoint
	// second process: where it is connected to by address; zero: by numbers
	Listen  netip.AddrPort `json:",omitzero"`
	In, Out verbs.Remote
	Words   verbs.Remote
}

// errPeerGone means that the other process has ended.
var errPeerGone = errors.New("the other process has ended")

// link carries messages between the processes.
type link struct {
	out *json.Encoder
	in  chan message
}

// newLink reads messages from r. gone is called when the other process reports a failure, and at
// the end of the messages.
func newLink(r io.Reader, w io.Writer, gone func(error)) *link {
	l := &link{out: json.NewEncoder(w), in: make(chan message, 4)}
	go func() {
		defer close(l.in)
		for dec := json.NewDecoder(r); ; {
			var m message
			if err := dec.Decode(&m); err != nil {
				gone(errPeerGone)
				return
			}
			if err := m.err(); err != nil {
				gone(err)
			}
			l.in <- m
		}
	}()
	return l
}

// receive returns the next message. It calls idle repeatedly until then, or sleeps if idle is nil.
func (l *link) receive(ctx context.Context, idle func()) (message, error) {
	for idle != nil {
		select {
		case m, ok := <-l.in:
			return l.checked(m, ok)
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		default:
			idle()
		}
	}
	select {
	case m, ok := <-l.in:
		return l.checked(m, ok)
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

func (l *link) checked(m message, ok bool) (message, error) {
	if !ok {
		return m, errPeerGone
	}
	return m, m.err()
}

// err returns the error that the second process reports.
func (m *message) err() error {
	if m.Error == "" {
		return nil
	}
	return fmt.Errorf("the second process: %s", m.Error)
}

// send sends a message. It fails only if the other process has ended.
func (l *link) send(m message) error {
	if l.out.Encode(m) != nil {
		return errPeerGone
	}
	return nil
}

// ask sends a message and waits for its answer.
func (l *link) ask(ctx context.Context, m message, idle func()) (message, error) {
	if err := l.send(m); err != nil {
		return m, err
	}
	return l.receive(ctx, idle)
}
