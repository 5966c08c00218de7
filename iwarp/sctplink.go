// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

const (
	// sctpReceive limits the bytes that a link has received and not yet delivered. SCTP's window
	// closes behind it.
	sctpReceive = 512 << 10
	// sctpSend limits the bytes that are handed to SCTP and not acknowledged.
	sctpSend = 1 << 20
	// sctpMessage is the longest user message.
	sctpMessage = 1 << 16
)

// sctpCloseTime is how long a link that is closed waits for its last bytes to arrive.
var sctpCloseTime = 2 * time.Second

// errEnded is the error of an association that ended without a shutdown.
var errEnded = errors.New("the association has ended")

// sctpLink is one association with one stream, number 0, ordered in both directions. To the device
// it is a stream of MPA without CRCs and markers, which never leaves this process.
type sctpLink struct {
	net      *sctpNetwork
	packets  *sctpPackets
	from, to netip.AddrPort

	assoc  *sctp.Association // once it is up
	stream *sctp.Stream
	out    sctpWriter

	// Guarded by net.mu.
	owner   any
	reading bool
	writing bool
	listed  bool
	up      bool
	err     error    // of reading
	in      [][]byte // bytes of MPA
	inBytes int
	full    bool // SCTP takes no more for now
	closed  bool
	room    chan struct{} // signals that in has room again
}

func newSCTPLink(n *sctpNetwork, p *sctpPackets) *sctpLink {
	return &sctpLink{net: n, packets: p, from: netip.AddrPortFrom(n.addr, p.key.localPort),
		to: netip.AddrPortFrom(p.key.peer.Addr(), p.key.peerPort), room: make(chan struct{}, 1)}
}

func (l *sctpLink) options() sctp.Config {
	return sctp.Config{NetConn: l.packets, MTU: uint32(l.net.packetBytes()), MaxMessageSize: sctpMessage,
		MaxReceiveBufferSize: 4 << 20, LoggerFactory: &logging.DefaultLoggerFactory{Writer: io.Discard,
			DefaultLogLevel: logging.LogLevelDisabled}}
}

// dial establishes the association.
func (l *sctpLink) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), sctpSetupTime)
	defer cancel()
	a, err := sctp.ClientContext(ctx, l.options())
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("connecting to %v: %w", l.to, syscall.ECONNREFUSED)
	} else if err != nil {
		err = fmt.Errorf("connecting to %v: %w", l.to, syscall.ETIMEDOUT)
	}
	l.begin(a, err)
}

// serve establishes an association that a peer requests.
func (l *sctpLink) serve(to *sctpAcceptor) {
	late := time.AfterFunc(sctpSetupTime, func() { l.packets.Close() })
	a, err := sctp.ServerWithOptions(l.options())
	late.Stop()
	l.begin(a, err)
	n := l.net
	n.mu.Lock()
	n.starting.Remove(l.to.Addr(), l)
	taken := err == nil && to.add(l)
	n.mu.Unlock()
	if !taken {
		l.Close(true)
	}
}

// begin starts using the association.
func (l *sctpLink) begin(a *sctp.Association, err error) {
	var s *sctp.Stream
	if err == nil {
		s, err = a.OpenStream(0, sctp.PayloadTypeUnknown)
	}
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		l.assoc, l.stream = a, s
		l.packets.assoc.Store(a)
		s.SetBufferedAmountLowThreshold(sctpSend / 2)
		s.OnBufferedAmountLow(l.drained)
		switch {
		case !l.closed:
			l.up = true
			go l.receive()
		case !n.closed:
			n.closers.Go(func() { a.Abort(""); l.packets.Close() })
		}
	}
	if l.err == nil {
		l.err = err
	}
	l.relist()
}

// drained records that there is room for sending. The association's lock is held.
func (l *sctpLink) drained() {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.full = false
	l.relist()
}

// receive receives messages until the association ends.
func (l *sctpLink) receive() {
	var r sctpReader
	var b []byte
	for {
		if b == nil {
			b = make([]byte, sctpMessage+8)
		}
		n, ppid, err := l.stream.ReadSCTP(b[:sctpMessage])
		var mpa []byte
		if err == nil {
			mpa, err = r.next(b[:n], uint32(ppid))
		} else {
			err = fmt.Errorf("%w: %w", errEnded, err)
			if errors.Is(err, io.EOF) {
				err = errEnded
			}
		}
		const small = 4 << 10 // so that a large buffer is not kept alive
		if len(mpa) < small {
			mpa = bytes.Clone(mpa)
		} else {
			b = nil
		}
		if !l.arrived(mpa, err) {
			return
		}
	}
}

// arrived hands over bytes, or the end, and waits for room. It returns false if nothing more is
// wanted.
func (l *sctpLink) arrived(b []byte, err error) bool {
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && l.err == nil {
		l.err = err
	}
	if len(b) > 0 {
		l.in = append(l.in, b)
		l.inBytes += len(b)
	}
	l.relist()
	for l.inBytes > sctpReceive && !l.closed {
		n.mu.Unlock()
		<-l.room
		n.mu.Lock()
	}
	return l.err == nil && !l.closed
}

// readiness returns whether the link can be read and written. net.mu is held.
func (l *sctpLink) readiness() (read, write bool) {
	failed := l.err != nil
	return l.reading && (len(l.in) > 0 || failed), l.writing && (l.up && !l.full || failed)
}

func (l *sctpLink) take() (owner any, read, write bool) {
	l.listed = false
	read, write = l.readiness()
	return l.owner, read, write
}

func (l *sctpLink) relist() {
	if read, write := l.readiness(); (read || write) && !l.listed && !l.closed {
		l.listed = true
		l.net.list(l)
	}
}

func (l *sctpLink) Own(owner any) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.owner = owner
}

func (l *sctpLink) Watch(read, write bool) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.reading, l.writing = read, write
	l.relist()
}

// Connected returns ErrAgain until the association is up.
func (l *sctpLink) Connected() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	switch {
	case l.up:
		return nil
	case l.err != nil:
		return l.err
	}
	return softdev.ErrAgain
}

// Starting reports whether the association is still being established.
func (l *sctpLink) Starting() bool {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	return !l.up && l.err == nil
}

// Read fills pieces with bytes that have arrived.
func (l *sctpLink) Read(pieces [][]byte) (int, error) {
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(l.in) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		n.mu.Unlock()
		n.yield()
		n.mu.Lock()
	}
	total := 0
	for _, p := range pieces {
		for len(p) > 0 && len(l.in) > 0 {
			k := copy(p, l.in[0])
			total += k
			p = p[k:]
			if l.in[0] = l.in[0][k:]; len(l.in[0]) == 0 {
				l.in[0] = nil
				l.in = l.in[1:]
			}
		}
	}
	if total == 0 {
		return 0, softdev.ErrAgain
	}
	l.inBytes -= total
	l.signalRoom()
	return total, nil
}

// signalRoom lets receive continue.
func (l *sctpLink) signalRoom() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// Write hands messages over, as many as there is room for.
func (l *sctpLink) Write(pieces [][]byte) (total int, err error) {
	l.net.mu.Lock()
	ok, err := l.up && !l.full && !l.closed, l.err
	l.net.mu.Unlock()
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !ok {
		return 0, softdev.ErrAgain
	}
	for _, p := range pieces {
		for len(p) > 0 {
			if l.out.between() && !l.hasSendRoom() {
				return total, nil
			}
			k, msg, ppid := l.out.take(p)
			total += k
			p = p[k:]
			if msg == nil {
				continue
			}
			if _, err := l.stream.WriteSCTP(msg, sctp.PayloadProtocolIdentifier(ppid)); err != nil {
				return total, fmt.Errorf("%w: %w", errEnded, err)
			}
		}
	}
	return total, nil
}

// hasSendRoom reports whether SCTP takes another message.
func (l *sctpLink) hasSendRoom() bool {
	if l.stream.BufferedAmount() < sctpSend {
		return true
	}
	l.net.mu.Lock()
	l.full = true
	l.net.mu.Unlock()
	if l.stream.BufferedAmount() > sctpSend/2 {
		return false // drained will be called
	}
	l.net.mu.Lock()
	l.full = false
	l.net.mu.Unlock()
	return true
}

// Shutdown ends the session: nothing more is written.
func (l *sctpLink) Shutdown() {
	l.net.mu.Lock()
	ok := l.up && !l.closed
	l.net.mu.Unlock()
	if ok {
		// fails if the association has ended
		l.stream.WriteSCTP(l.out.end(), sctp.PayloadProtocolIdentifier(ppidSession))
	}
}

// Close ends the link.
func (l *sctpLink) Close(abort bool) {
	n := l.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.in, l.inBytes = nil, 0
	l.signalRoom()
	a := l.assoc
	if a == nil {
		l.packets.Close() // makes dial or serve end
		return
	}
	if n.closed {
		return
	}
	broken := l.err != nil
	n.closers.Go(func() {
		defer l.packets.Close()
		// An ABORT would overtake bytes that were handed over and not sent yet, although their work
		// requests have completed.
		if !abort || !broken && l.stream.BufferedAmount() > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), sctpCloseTime)
			defer cancel()
			if a.Shutdown(ctx) == nil {
				return
			}
		}
		a.Abort("")
	})
}

// MSS returns the size of packets, which does not limit segments: SCTP fragments messages itself.
func (l *sctpLink) MSS() int { return l.net.packetBytes() }

// Silent returns false: SCTP detects a silent peer itself, see sctpTimeout.
func (l *sctpLink) Silent() bool { return false }

// Ended reports whether everything was read.
func (l *sctpLink) Ended() bool {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	return l.err != nil
}

func (l *sctpLink) LocalAddr() netip.AddrPort { return l.from }
func (l *sctpLink) PeerAddr() netip.AddrPort  { return l.to }
