// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"io"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/trace"
)

// tracedNetwork records the streams of another network, as the device sees them: over TLS the decrypted
// stream, over SCTP the FPDUs that its messages stand for.
type tracedNetwork struct {
	streamdev.Network
	trace *trace.Writer
}

// CheckRoute asks the underlying network.
func (n *tracedNetwork) CheckRoute(from, to netip.Addr) error {
	return softdev.CheckRoute(n.Network, from, to)
}

// Dial begins to connect.
func (n *tracedNetwork) Dial(from, to netip.AddrPort, tos uint8) (streamdev.Link, error) {
	l, err := n.Network.Dial(from, to, tos)
	if err != nil {
		return nil, err
	}
	return &tracedLink{Link: l, trace: n.trace}, nil
}

// Listen accepts links.
func (n *tracedNetwork) Listen(at netip.AddrPort, backlog int) (streamdev.Acceptor, error) {
	a, err := n.Network.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	return &tracedAcceptor{a, n.trace}, nil
}

// tracedAcceptor records the links that it accepts.
type tracedAcceptor struct {
	streamdev.Acceptor
	trace *trace.Writer
}

func (a *tracedAcceptor) Accept() (streamdev.Link, error) {
	l, err := a.Acceptor.Accept()
	if err != nil {
		return nil, err
	}
	return &tracedLink{Link: l, trace: a.trace, stream: a.trace.Stream(l.LocalAddr(), l.PeerAddr(), false)}, nil
}

// tracedLink records a link.
type tracedLink struct {
	streamdev.Link
	trace  *trace.Writer
	stream *trace.Stream // nil: the link is not established yet
	// comment returns the comment of bytes that were sent or received; nil: they have none.
	comment func(sent bool, b []byte) string
}

// Comment implements streamdev.RecordingLink.
func (l *tracedLink) Comment(of func(sent bool, b []byte) string) { l.comment = of }

func (l *tracedLink) Connected() error {
	err := l.Link.Connected()
	if err == nil {
		l.stream = l.trace.Stream(l.LocalAddr(), l.PeerAddr(), true)
	}
	return err
}

func (l *tracedLink) Read(pieces [][]byte) (int, error) {
	n, err := l.Link.Read(pieces)
	l.record(false, pieces, n)
	if errors.Is(err, io.EOF) {
		l.stream.ReceivedEnd()
	}
	return n, err
}

func (l *tracedLink) Write(pieces [][]byte) (int, error) {
	n, err := l.Link.Write(pieces)
	l.record(true, pieces, n)
	return n, err
}

// record records the first n bytes of pieces.
func (l *tracedLink) record(sent bool, pieces [][]byte, n int) {
	for _, p := range pieces {
		p = p[:min(n, len(p))]
		if l.comment != nil && len(p) > 0 {
			l.stream.SetComment(l.comment(sent, p))
		}
		if sent {
			l.stream.Sent(p)
		} else {
			l.stream.Received(p)
		}
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
