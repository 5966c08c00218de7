// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
)

// outgoing is the sending side of a connection to the fabric's process. Senders do not wait: bytes that the socket
// does not accept at once are buffered, and written by a goroutine.
type outgoing struct {
	conn *net.UnixConn
	room func() // called when there is room again, after full returned true
	ring chan struct{}
	done chan struct{}

	mu        sync.Mutex
	buf       []byte // not written yet
	spare     []byte
	busy      bool // the goroutine is writing
	foundFull bool // full has returned true
	closed    bool
}

const (
	// maxOutgoing is how many bytes may wait to be written before full returns true.
	maxOutgoing = 1 << 20
	// drainTime limits how long closing a device waits for its messages to be written. It is shorter if the fabric's
	// process is stopped.
	drainTime = 10 * time.Second
)

func (o *outgoing) init(c *net.UnixConn, room func()) {
	o.conn, o.room, o.ring, o.done = c, room, make(chan struct{}, 1), make(chan struct{})
	go o.run()
}

// run writes the buffered bytes.
func (o *outgoing) run() {
	for {
		o.mu.Lock()
		out, waited, closed := o.buf, o.foundFull, o.closed
		o.buf, o.spare = o.spare[:0], nil
		o.busy, o.foundFull = len(out) > 0, false
		o.mu.Unlock()
		if closed {
			return
		}
		if len(out) > 0 {
			if _, err := o.conn.Write(out); err != nil {
				o.close()
			}
		}
		o.mu.Lock()
		o.spare = out
		o.mu.Unlock()
		if waited {
			o.room()
		}
		if len(out) == 0 {
			select {
			case <-o.ring:
			case <-o.done:
			}
		}
	}
}

func (o *outgoing) wake() {
	select {
	case o.ring <- struct{}{}:
	default:
	}
}

// full reports whether no more packets are accepted. If so, room is called when they are.
func (o *outgoing) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isFull := len(o.buf) >= maxOutgoing
	o.foundFull = o.foundFull || isFull
	return isFull
}

// write queues a message.
func (o *outgoing) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, b...)
	o.flush()
}

// packets queues packets to send from a port. The caller has checked full.
func (o *outgoing) packets(port int, packets []*link.Packet) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fabric.ErrClosed
	}
	for _, p := range packets {
		o.buf = append(appendPacketHeader(o.buf, port, p), p.Bytes()...)
	}
	o.flush()
	return nil
}

// flush writes as much as the socket accepts at once, and leaves the rest to the goroutine. The lock is held.
func (o *outgoing) flush() {
	if !o.busy && !o.closed {
		n := writeNow(o.conn, o.buf)
		o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	}
	if len(o.buf) > 0 {
		o.wake()
	}
}

// drain waits until everything is written, the fabric's process is stopped, or drainTime is over.
func (o *outgoing) drain() {
	began := time.Now()
	for look := began.Add(askInterval); time.Since(began) < drainTime; time.Sleep(100 * time.Microsecond) {
		o.mu.Lock()
		idle := o.closed || len(o.buf) == 0 && !o.busy
		o.mu.Unlock()
		if idle {
			return
		}
		if now := time.Now(); now.After(look) {
			if errStopped(o.conn) != nil {
				return
			}
			look = now.Add(askInterval)
		}
	}
}

func (o *outgoing) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

func (o *outgoing) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.done)
	}
}
