// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
)

// tlsLink is TLS over a TCP connection.
type tlsLink struct {
	net      *tlsNetwork
	tcp      streamdev.Link
	from, to netip.AddrPort
	owner    any
	dialed   bool
	reading  bool // the owner waits for this
	writing  bool

	handshake *handshake // the handshake, once begun
	conn      *tls.Conn
	up        bool  // the handshake is done
	refused   bool  // it failed, and the peer is being told why
	failed    error // why it failed, or that the link is closed

	in       []byte // read from TCP and not yet by conn, in buf
	buf      []byte
	out      []byte // records that wait for TCP, in obuf
	obuf     []byte
	ahead    [1]byte // the next byte for the owner, if there is one
	hasAhead bool    // ahead is valid
	more     bool    // ahead, conn or in may have data
	shut     bool    // shut TCP down once out is empty
}

func (n *tlsNetwork) newLink(tcp streamdev.Link, dialed bool) *tlsLink {
	l := &tlsLink{net: n, tcp: tcp, dialed: dialed, from: tcp.LocalAddr(), to: tcp.PeerAddr()}
	tcp.Own(l)
	return l
}

func (l *tlsLink) Own(owner any) { l.owner = owner }

func (l *tlsLink) Watch(read, write bool) {
	l.reading, l.writing = read, write
	l.update()
	if l.listed() {
		l.net.Network.Wake()
	}
}

// listed reports whether there may be data to read that TCP does not report.
func (l *tlsLink) listed() bool { return l.more && l.reading && (l.up || l.failed != nil) }

// update watches TCP for the events that the owner and the handshake wait for.
func (l *tlsLink) update() {
	switch {
	case l.tcp == nil:
	case l.up:
		l.tcp.Watch(l.reading, l.writing || len(l.out) > 0)
	case l.handshake != nil:
		l.tcp.Watch(true, len(l.out) > 0)
	default:
		l.tcp.Watch(!l.dialed, l.dialed)
	}
	if l.listed() {
		l.net.more[l] = struct{}{}
	} else {
		delete(l.net.more, l)
	}
	l.net.waiting.Store(int32(len(l.net.more)))
}

// handleReady handles readiness of TCP, or progress of a handshake.
func (l *tlsLink) handleReady(read, write bool) {
	if l.tcp == nil {
		return // closed
	}
	if l.up {
		if write {
			l.flush()
		}
		l.net.report(l.owner, read && l.reading && l.probe(), write && l.writing && len(l.out) == 0)
		return
	}
	l.advance()
	if l.up || l.failed != nil {
		l.update()
		l.net.report(l.owner, true, true)
	}
}

// probe reports whether Read has data: a record may be incomplete, or contain no data.
func (l *tlsLink) probe() bool {
	if l.hasAhead || l.failed != nil {
		return true
	}
	n, err := l.conn.Read(l.ahead[:])
	l.hasAhead = n > 0
	l.more = l.hasAhead || !errors.Is(err, softdev.ErrAgain)
	l.update()
	return l.more
}

// Connected returns ErrAgain until the handshake is done.
func (l *tlsLink) Connected() error {
	switch {
	case l.failed != nil:
		return l.failed
	case !l.up:
		return softdev.ErrAgain
	}
	return nil
}

// Starting reports whether the handshake is still running.
func (l *tlsLink) Starting() bool {
	return (l.handshake != nil || !l.dialed) && !l.up && l.failed == nil && !l.refused
}

// advance continues the handshake, which comes before data.
func (l *tlsLink) advance() {
	if l.failed != nil {
		return
	}
	if l.handshake == nil {
		if l.dialed {
			if err := l.tcp.Connected(); err != nil {
				if !errors.Is(err, softdev.ErrAgain) {
					l.failed = err
				}
				return
			}
		}
		l.begin()
	}
	l.pump()
	l.update()
}

// begin starts the handshake.
func (l *tlsLink) begin() {
	l.handshake = newHandshake(l)
	if l.dialed {
		c := l.net.client.Clone()
		c.ServerName = l.to.Addr().WithZone("").String()
		l.conn = tls.Client(l.handshake, c)
	} else {
		l.conn = tls.Server(l.handshake, l.net.server)
	}
	go l.handshake.run(l.conn)
}

// pump moves bytes between TCP and the handshake.
func (l *tlsLink) pump() {
	h := l.handshake
	out, done, err := h.outgoing()
	if len(out) > 0 {
		l.append(out)
	}
	l.flush() // if TCP has ended, reading reports it
	switch {
	case l.refused:
		l.discardInput()
		return
	case done && err == nil:
		l.up, l.more, l.in = true, true, h.left()
		return
	case done:
		l.refuse(err)
		return
	}
	for {
		var b [4096]byte
		n, err := l.tcp.Read([][]byte{b[:]})
		switch {
		case n > 0 && h.incoming(b[:n]):
			continue
		case n > 0:
		case errors.Is(err, softdev.ErrAgain):
		case errors.Is(err, io.EOF):
			h.abort(errTruncated)
		case err != nil:
			h.abort(err)
		}
		return
	}
}

// refuse ends a link whose handshake failed. A peer that dialed us is told why: closing TCP before
// it has read that might destroy it.
func (l *tlsLink) refuse(err error) {
	err = explainTLS(l.to, l.dialed, false, err)
	l.handshake.err = err
	if l.dialed {
		l.failed = err
		return
	}
	if f := l.net.refused; f != nil {
		go f(l.to, err)
	}
	l.refused, l.shut = true, true
	l.flush()
	l.discardInput()
}

// discardInput drops bytes that the peer still sends.
func (l *tlsLink) discardInput() {
	var b [4096]byte
	for range 16 {
		_, err := l.tcp.Read([][]byte{b[:]})
		if errors.Is(err, softdev.ErrAgain) {
			return
		}
		if err != nil {
			l.failed = l.handshake.err
			return
		}
	}
}

// append adds records to the queue for TCP.
func (l *tlsLink) append(b []byte) {
	if l.obuf == nil {
		l.obuf = l.net.buffer()
		l.out = l.obuf[:0]
	}
	l.out = append(l.out, b...)
}

// flush writes as much as TCP takes.
func (l *tlsLink) flush() error {
	for len(l.out) > 0 {
		n, err := l.tcp.Write([][]byte{l.out})
		if errors.Is(err, softdev.ErrAgain) {
			l.update()
			return nil
		}
		if err != nil {
			return err
		}
		l.out = l.out[n:]
	}
	if l.obuf != nil {
		l.net.release(l.obuf)
		l.obuf, l.out = nil, nil
		l.update()
	}
	if l.shut {
		l.shut = false
		l.tcp.Shutdown()
	}
	return nil
}

// Read fills pieces with the peer's data.
func (l *tlsLink) Read(pieces [][]byte) (int, error) {
	switch {
	case l.failed != nil:
		return 0, l.failed
	case !l.up:
		return 0, softdev.ErrAgain
	}
	had, total := l.more, 0
	for _, p := range pieces {
		if l.hasAhead && len(p) > 0 {
			p[0], l.hasAhead = l.ahead[0], false
			total, p = 1, p[1:]
		}
		for len(p) > 0 {
			n, err := l.conn.Read(p)
			total += n
			p = p[n:]
			if err == nil {
				continue
			}
			if l.more = !errors.Is(err, softdev.ErrAgain); l.more != had {
				l.update()
			}
			switch {
			case total > 0: // any other error remains an error
				return total, nil
			case !l.more:
				return 0, softdev.ErrAgain
			case errors.Is(err, io.EOF):
				return 0, io.EOF
			}
			return 0, explainTLS(l.to, l.dialed, true, err)
		}
	}
	if l.more = true; !had {
		l.update()
	}
	return total, nil
}

// fill reads for conn: first the bytes that were read before, then from TCP. It keeps bytes that conn has
// no room for.
func (l *tlsLink) fill(b []byte) (int, error) {
	if len(l.in) > 0 {
		n := copy(b, l.in)
		if l.in = l.in[n:]; len(l.in) == 0 && l.buf != nil {
			l.net.release(l.buf)
			l.in, l.buf = nil, nil
		}
		return n, nil
	}
	rest := l.net.buffer()
	n, err := l.tcp.Read([][]byte{b, rest})
	if n <= len(b) {
		l.net.release(rest)
	} else {
		l.buf, l.in = rest, rest[:n-len(b)]
		n = len(b)
	}
	switch {
	case n > 0:
		return n, nil
	case errors.Is(err, softdev.ErrAgain):
		return 0, tlsAgain{}
	case errors.Is(err, io.EOF):
		return 0, errTruncated
	}
	return 0, err
}

// Write encrypts as much of pieces as TCP has room for.
func (l *tlsLink) Write(pieces [][]byte) (total int, err error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if err := l.flush(); err != nil {
		return 0, err
	}
	if !l.up || len(l.out) > 0 {
		return 0, softdev.ErrAgain
	}
	stage := l.net.stage[:0]
	for _, p := range pieces {
		for len(p) > 0 {
			n := min(len(p), recordBytes-len(stage))
			if n == recordBytes {
				_, err = l.conn.Write(p[:n]) // a whole record needs no copy
			} else if stage = append(stage, p[:n]...); len(stage) == recordBytes {
				_, err = l.conn.Write(stage)
				stage = stage[:0]
			}
			if err != nil {
				return total, err
			}
			total += n
			p = p[n:]
			if len(l.out) > bufferBytes-2*recordBytes && len(stage) == 0 {
				if err := l.flush(); err != nil || len(l.out) > 0 {
					return total, err
				}
			}
		}
	}
	if len(stage) > 0 {
		if _, err = l.conn.Write(stage); err != nil {
			return total, err
		}
	}
	return total, l.flush()
}

// Shutdown says that nothing more is written.
func (l *tlsLink) Shutdown() {
	if l.tcp == nil {
		return
	}
	if l.up {
		l.conn.CloseWrite() // writes to out, which cannot fail
	}
	l.shut = true
	l.flush() // fails if TCP has ended
}

// Close ends the link.
func (l *tlsLink) Close(abort bool) {
	if l.tcp == nil {
		return
	}
	l.more = false
	l.update()
	if l.handshake != nil {
		l.handshake.abort(net.ErrClosed)
	}
	l.tcp.Close(abort && l.failed == nil) // a reset might overtake the reason for a failure
	l.tcp, l.in, l.buf, l.out, l.obuf, l.failed = nil, nil, nil, nil, nil, net.ErrClosed
}

func (l *tlsLink) Silent() bool              { return l.tcp != nil && l.tcp.Silent() }
func (l *tlsLink) Ended() bool               { return l.tcp != nil && l.tcp.Ended() }
func (l *tlsLink) MSS() int                  { return l.tcp.MSS() }
func (l *tlsLink) LocalAddr() netip.AddrPort { return l.from }
func (l *tlsLink) PeerAddr() netip.AddrPort  { return l.to }
