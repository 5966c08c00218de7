// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
)

const (
	// streamRoom is how many bytes a stream holds back in one direction: a slow path is felt by the sender.
	streamRoom = 4 << 20
	// streamPiece is how many bytes are read at once, and then delayed together.
	streamPiece = 16 << 10
)

// RefusesFault returns why a fault makes no sense over streams.
func (d *Device) RefusesFault(f *faults.Fault) string {
	isBytes := d.carrier.Bytes()
	switch {
	case !isBytes && f.Kind.OfPackets():
		return "shared memory has no packets, and no network between its processes"
	case f.Kind == faults.RNR && isBytes:
		return "messages wait for a receive here: there are no RNR NAKs"
	case f.Kind == faults.Loss || f.Kind == faults.Duplicate || f.Kind == faults.Reorder:
		return "TCP, or SCTP, below loses, repeats and reorders nothing: use delay, rate, corrupt, partition or down"
	case f.Kind == faults.Corrupt && !d.net.Proposal().CRC:
		return "TLS, or SCTP, or who left MPA's CRC out, has the streams without a CRC that would see it: use disconnect"
	case f.Kind.OfPackets() && f.Message != "":
		return "what is counted is reads and writes of a stream, which have no sort"
	case f.Kind == faults.RNR && f.Message != "":
		return "messages have no sort here"
	case f.LID != 0:
		return softdev.NoLIDs
	}
	return ""
}

// Impair has faults hold back, or spoil, the bytes that the streams of the device carry.
func (d *Device) Impair(x *softdev.Faulty) {
	d.carrier.RefuseMessages(x)
	isBytes := d.carrier.Bytes()
	if d.impaired = nil; x != nil && (x.Dead || isBytes && x.Injector.Has(faults.Kind.OfPackets)) {
		d.impaired = x
	}
	for _, c := range d.inOrder() {
		switch {
		case x == nil || !x.Dead:
			c.impair()
		case c.phase == running:
			c.Lost(errDead)
		default:
			c.fail(errDead)
		}
	}
}

var errDead = errors.New("the device has failed")

// impair puts faults between a connection and its link, or takes them out.
func (c *Conn) impair() {
	l, is := c.link.(*faultyLink)
	switch {
	case is:
		if l.faults = c.dev.impaired; l.faults == nil { // bytes that were held back come at once
			for i := range l.in {
				l.in[i].at = 0
			}
			l.endAt = 0
			for i := range l.out {
				l.out[i].at = 0
			}
		}
		l.resume()
	case c.dev.impaired != nil:
		l := &faultyLink{Link: c.link, c: c, faults: c.dev.impaired}
		l.timer.Fire = l.resume
		if r, ok := c.link.(RecordingLink); ok {
			r.Comment(l.comment)
		}
		l.read = c.stage() != rdmap.StageLink
		c.link = l
		if c.phase == running {
			c.qp.Endpoint.Watch()
		}
	}
}

// faultyLink is a link with faults. A read or a write of the stream stands for a packet.
type faultyLink struct {
	Link
	c      *Conn
	faults *softdev.Faulty // nil: nothing happens any more
	in     []streamBytes
	out    []streamBytes
	size   [2]int     // bytes of both
	end    error      // of reading
	endAt  clock.Time // when the end is reported
	lag    clock.Time // the delay of the bytes that arrived last, and of the end behind them
	shut   bool       // Shutdown was called
	read   bool       // the connection waits for bytes to read
	write  bool
	timer  softdev.Timer

	cutOff  [2]clock.Time // since when nothing is sent, and received; 0: it is
	silence faults.Kinds  // by which nothing was received when that was asked last
	held    faults.Kinds  // the faults of a silence that has just ended, and has held back the bytes that are read now
	taken   faults.Kinds  // the faults that struck the bytes that the connection has read last
	left    faults.Kinds  // the faults that struck the bytes that it has written last
	arrived streamBytes   // bytes that a recording link has read, and was asked to comment
}

// streamBytes are bytes that go on at a time.
type streamBytes struct {
	at clock.Time
	b  []byte
	by faults.Kinds // that have struck them
}

// RecordingLink is a Link that records the bytes that it carries.
type RecordingLink interface {
	Link
	// Comment has each piece that was written or read recorded with a comment, which is asked for before.
	Comment(of func(sent bool, b []byte) string)
}

// comment returns the comment of bytes in a recording.
func (l *faultyLink) comment(sent bool, b []byte) string {
	switch {
	case !sent:
		l.arrived = l.decideArrived(b)
		return l.arrived.by.Comment()
	case len(l.out) > 0:
		return l.out[0].by.Comment()
	}
	return ""
}

// decideArrived is decide for bytes that have been read.
func (l *faultyLink) decideArrived(b []byte) streamBytes {
	if l.faults == nil {
		return streamBytes{b: b}
	}
	s := l.decide(faults.Received, b, l.in)
	l.lag = s.at - l.c.dev.Lane.PassTime()
	s.by |= l.held
	return s
}

// decide returns bytes with the time when they go on, and spoils them perhaps.
func (l *faultyLink) decide(way faults.Way, b []byte, after []streamBytes) streamBytes {
	x := l.faults
	at := l.c.dev.Lane.PassTime()
	p := faults.Packet{Way: way, Peer: l.peer(), Size: len(b), Name: "bytes of a stream"}
	p.QP = l.qp()
	v := x.Injector.Packet(&p, x.Since(&l.c.dev.Lane))
	if v.Corrupt {
		b[len(b)/2] ^= 1
	}
	at += clock.Time(v.Delay)
	if v.Drop {
		at += clock.Time(silence)
	}
	if n := len(after); n > 0 {
		at = max(at, after[n-1].at)
	}
	return streamBytes{at, b, v.By}
}

// silenceEnd is how long a peer may be cut off until it is given up, as the sockets below do with one that acknowledges
// nothing.
const silenceEnd = clock.Time(30 * time.Second)

// silence is how long bytes wait in a partition, until it is asked again whether there still is one.
const silence = 10 * time.Millisecond

// silent reports whether nothing passes now in a direction.
func (l *faultyLink) silent(way faults.Way) bool {
	x := l.faults
	if x == nil || x.Dead {
		return x != nil
	}
	by := x.Injector.Silent(way, l.peer(), l.qp(), x.Since(&l.c.dev.Lane))
	switch cutOff := &l.cutOff[way-faults.Sent]; {
	case by == 0:
		*cutOff = 0
	case *cutOff == 0:
		*cutOff = l.c.dev.Lane.PassTime()
	}
	if way == faults.Received {
		if by == 0 && l.silence != 0 { // the bytes that wait below were held back
			l.held = l.silence
		}
		l.silence = by
		return by != 0
	}
	if by != 0 {
		for i := range l.out {
			l.out[i].by |= by
		}
	}
	return by != 0
}

// Silent reports whether the peer is gone: acknowledgements need both directions.
func (l *faultyLink) Silent() bool {
	for i, way := range []faults.Way{faults.Sent, faults.Received} {
		if l.faults != nil && !l.faults.Dead && l.silent(way) && l.c.dev.Lane.PassTime()-l.cutOff[i] >= silenceEnd {
			return true
		}
	}
	return l.Link.Silent()
}

// qp returns the queue pair that has the connection; the zero value: none has yet.
func (l *faultyLink) qp() faults.QP {
	if l.c.qp == nil {
		return faults.QP{}
	}
	return l.faults.QPOf(&l.c.qp.QP)
}

// peer returns the peer's address, as faults name it.
func (l *faultyLink) peer() netip.Addr { return l.PeerAddr().Addr().Unmap().WithZone("") }

// Read returns the bytes that have arrived and are due.
func (l *faultyLink) Read(pieces [][]byte) (n int, err error) {
	if l.faults == nil && len(l.in) == 0 && l.end == nil {
		return l.Link.Read(pieces)
	}
	l.fetch()
	now := l.c.dev.Lane.PassTime()
	if f := l.c.running(); f == nil || !f.engine.Partial() {
		l.taken = 0
	}
	if l.silent(faults.Received) {
		l.wakeAt(now + clock.Time(silence))
		return 0, softdev.ErrAgain
	}
	for _, p := range pieces {
		for len(p) > 0 && len(l.in) > 0 && l.in[0].at <= now {
			k := copy(p, l.in[0].b)
			p, n = p[k:], n+k
			l.taken |= l.in[0].by
			l.size[0] -= k
			if l.in[0].b = l.in[0].b[k:]; len(l.in[0].b) == 0 {
				l.in = l.in[1:]
			}
		}
	}
	switch {
	case n > 0:
		if len(l.in) > 0 {
			l.wakeAt(max(l.in[0].at, now))
		} else if l.end != nil { // not at the same time: a program that has all that it waits for may close first
			l.endAt = max(l.endAt, now+softdev.RetryTime)
			l.wakeAt(l.endAt)
		}
		return n, nil
	case len(l.in) > 0:
		l.wakeAt(l.in[0].at)
		return 0, softdev.ErrAgain
	case l.end != nil && l.endAt > now:
		l.wakeAt(l.endAt)
		return 0, softdev.ErrAgain
	case l.end != nil:
		return 0, l.end
	}
	l.rewatch()
	return 0, softdev.ErrAgain
}

// fetch reads the link's bytes, as far as there is room.
func (l *faultyLink) fetch() {
	for l.end == nil && l.size[0] < streamRoom && !l.silent(faults.Received) {
		b := make([]byte, streamPiece)
		n, err := l.Link.Read([][]byte{b})
		if errors.Is(err, softdev.ErrAgain) {
			break
		}
		if err != nil {
			l.end, l.endAt = err, l.c.dev.Lane.PassTime()+l.lag
			break
		}
		if _, records := l.Link.(RecordingLink); records {
			l.in = append(l.in, l.arrived)
		} else {
			l.in = append(l.in, l.decideArrived(b[:n]))
		}
		l.size[0] += n
		if n < len(b) {
			break
		}
	}
	if l.silence == 0 {
		l.held = 0
	}
	l.rewatch()
}

// Write takes bytes, which leave when they are due.
func (l *faultyLink) Write(pieces [][]byte) (n int, err error) {
	l.left = 0
	if l.faults == nil && len(l.out) == 0 {
		return l.Link.Write(pieces)
	}
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		if l.size[1] >= streamRoom {
			break
		}
		b := streamBytes{b: append([]byte(nil), p...)}
		if l.faults != nil {
			b = l.decide(faults.Sent, b.b, l.out)
		}
		l.left = b.by
		l.out = append(l.out, b)
		l.size[1] += len(b.b)
		n += len(b.b)
	}
	if err := l.flush(l.c.dev.Lane.PassTime()); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, softdev.ErrAgain
	}
	return n, nil
}

// flush writes the bytes that are due.
func (l *faultyLink) flush(now clock.Time) error {
	for len(l.out) > 0 && l.out[0].at <= now {
		if l.silent(faults.Sent) {
			l.wakeAt(now + clock.Time(silence))
			return nil
		}
		n, err := l.Link.Write([][]byte{l.out[0].b})
		if errors.Is(err, softdev.ErrAgain) {
			l.wakeAt(now + softdev.RetryTime)
			return nil
		}
		if err != nil {
			l.out, l.size[1] = nil, 0
			return err
		}
		l.size[1] -= n
		if l.out[0].b = l.out[0].b[n:]; len(l.out[0].b) == 0 {
			l.out = l.out[1:]
		}
	}
	if len(l.out) > 0 {
		l.wakeAt(l.out[0].at)
	} else if l.shut {
		l.shut = false
		l.Link.Shutdown()
	}
	return nil
}

func (l *faultyLink) wakeAt(t clock.Time) {
	l.c.dev.Lane.Timers.SetBy(&l.timer, t)
	l.c.dev.Lane.WakeForTimer()
}

// resume goes on with the events that are due.
func (l *faultyLink) resume() {
	c := l.c
	if c.phase == closed {
		return
	}
	if err := l.flush(c.dev.Lane.PassTime()); err != nil {
		l.end = err
	}
	if !l.silent(faults.Received) && l.held != 0 && l.read {
		l.fetch()
	}
	l.rewatch()
	if read, write := l.read && (len(l.in) > 0 || l.end != nil), l.write && l.size[1] < streamRoom; read || write {
		c.Handle(read, write)
	}
	c.dev.transmit()
}

// Watch reports the events that the connection wants. The link is watched only for events that would be taken.
func (l *faultyLink) Watch(read, write bool) {
	l.read, l.write = read, write
	l.rewatch()
	if l.faults == nil {
		return
	}
	if read && len(l.in) > 0 {
		l.wakeAt(l.in[0].at)
	}
	if write && l.size[1] >= streamRoom {
		l.wakeAt(l.c.dev.Lane.PassTime() + softdev.RetryTime)
	}
}

// rewatch watches the link for the events that would be taken.
func (l *faultyLink) rewatch() {
	if l.c.stage() == rdmap.StageLink { // until it is there it reports that
		return
	}
	deaf, mute := l.silent(faults.Received), l.silent(faults.Sent)
	if deaf || mute {
		l.wakeAt(l.c.dev.Lane.PassTime() + clock.Time(silence))
	}
	l.Link.Watch(l.read && l.end == nil && l.size[0] < streamRoom && !deaf,
		l.write && l.size[1] < streamRoom && !mute)
}

// Shutdown ends sending when all has left.
func (l *faultyLink) Shutdown() {
	if len(l.out) > 0 {
		l.shut = true
		return
	}
	l.Link.Shutdown()
}

// Close closes the link. Without abort the bytes that were held back leave before, as far as they can at once.
func (l *faultyLink) Close(abort bool) {
	if !abort && !l.silent(faults.Sent) {
		const end = clock.Time(1<<63 - 1)
		_ = l.flush(end) // the link ends anyhow
	}
	l.c.dev.Lane.Timers.Stop(&l.timer)
	l.Link.Close(abort)
}

// Ended reports whether the peer has ended the link.
func (l *faultyLink) Ended() bool {
	return errors.Is(l.end, io.EOF) || l.Link.Ended()
}
