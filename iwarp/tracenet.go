// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"io"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/trace"
)

// tracedNetwork records the streams of another network, as the device sees them: over TLS what is
// inside, over SCTP the FPDUs that its messages stand for.
type tracedNetwork struct {
	softdev.Network
	trace *trace.Writer
}

// CheckRoute asks the underlying network.
func (n *tracedNetwork) CheckRoute(from, to netip.Addr) error {
	return softdev.CheckRoute(n.Network, from, to)
}

// Dial begins to connect.
func (n *tracedNetwork) Dial(from, to netip.AddrPort, tos uint8) (softdev.Link, error) {
	l, err := n.Network.Dial(from, to, tos)
	if err != nil {
		return nil, err
	}
	return &tracedLink{Link: l, trace: n.trace}, nil
}

// Listen accepts links.
func (n *tracedNetwork) Listen(at netip.AddrPort, backlog int) (softdev.Acceptor, error) {
	a, err := n.Network.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	return &tracedAcceptor{a, n.trace}, nil
}

// tracedAcceptor records the links that it accepts.
type tracedAcceptor struct {
	softdev.Acceptor
	trace *trace.Writer
}

func (a *tracedAcceptor) Accept() (softdev.Link, error) {
	l, err := a.Acceptor.Accept()
	if err != nil {
		return nil, err
	}
	return &tracedLink{l, a.trace, a.trace.Stream(l.LocalAddr(), l.PeerAddr(), false)}, nil
}

// tracedLink records a link.
type tracedLink struct {
	softdev.Link
	trace  *trace.Writer
	stream *trace.Stream // nil: the link is not established yet
}

func (l *tracedLink) Connected() error {
	err := l.Link.Connected()
	if err == nil {
		l.stream = l.trace.Stream(l.LocalAddr(), l.PeerAddr(), true)
	}
	return err
}

func (l *tracedLink) Read(pieces [][]byte) (int, error) {
	n, err := l.Link.Read(pieces)
	each(pieces, n, l.stream.Received)
	if errors.Is(err, io.EOF) {
		l.stream.ReceivedEnd()
	}
	return n, err
}

func (l *tracedLink) Write(pieces [][]byte) (int, error) {
	n, err := l.Link.Write(pieces)
	each(pieces, n, l.stream.Sent)
	return n, err
}

// each calls f for the first n bytes of pieces.
func each(pieces [][]byte, n int, f func(...[]byte)) {
	for _, p := range pieces {
		p = p[:min(n, len(p))]
		f(p)
		n -= len(p)
	}
}

func (l *tracedLink) Shutdown() {
	l.Link.Shutdown()
	l.stream.SentEnd()
}

func (l *tracedLink) Close(abort bool) {
	l.Link.Close(abort)
	switch {
	case l.stream == nil:
	case abort:
		l.stream.Aborted()
	default:
		l.stream.SentEnd()
	}
}
