// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/netio"
)

// outgoingFrames is the sending side of a cable. A goroutine that has caused frames sends them, unless another one is
// sending: that one looks for them again.
type outgoingFrames struct {
	wanted atomic.Int32 // calls of Transmit since a goroutine began to send; 0: none sends
	handed atomic.Bool  // Cable.run is to go on sending

	// The fields that follow belong to the goroutine that sends.
	buf   []byte // datagrams
	ends  []int  // where each ends
	sent  int    // how many of them have left, or are in train
	train *netio.Train
	to    netip.AddrPort
}

const (
	// maxBatches is how many batches of frames a goroutine sends before it leaves the rest to the cable's own.
	maxBatches = 8
	// fullPause is how long that waits when the socket takes no more.
	fullPause = 100 * time.Microsecond
)

// cableLine is a cable as the fabric has it: a fabric.Line.
type cableLine struct{ *Cable }

// Transmit sends the frames that are due. It does not block.
func (c cableLine) Transmit() {
	if c.wanted.Add(1) == 1 {
		c.transmit()
	}
}

// transmit sends frames until there are none. If there are many, or the socket takes no more, it leaves them to run.
func (c *Cable) transmit() {
	for range maxBatches {
		wanted := c.wanted.Load()
		more, full := c.sendBatch()
		if full {
			break
		}
		if !more && c.wanted.CompareAndSwap(wanted, 0) {
			return
		}
	}
	c.handed.Store(true)
	c.Wake()
}

// goOn sends frames that Transmit has left, or that are due now.
func (c *Cable) goOn() {
	if !c.handed.Swap(false) {
		cableLine{c}.Transmit()
		return
	}
	if c.train.Len() > 0 {
		time.Sleep(fullPause)
	}
	c.transmit()
}

// sendBatch sends a batch of frames. It reports whether there may be more, and whether the socket is full.
func (c *Cable) sendBatch() (more, full bool) {
	if c.sent == len(c.ends) && c.train.Len() == 0 && !c.nextBatch() {
		return false, false
	}
	for c.fillTrain() {
		if c.socket.sock.Send(c.train) == netio.ErrAgain { // other losses are harmless to the link
			return false, true
		}
		c.train.Reset(netip.AddrPort{})
	}
	return true, false
}

// nextBatch takes frames from the fabric, and makes datagrams of them. It returns false if there are none, or nowhere
// to send them.
func (c *Cable) nextBatch() bool {
	to := c.destination()
	if to.token == 0 {
		return false
	}
	c.to = to.peer
	c.sent = 0
	c.buf, c.ends = c.remote.Next(c.buf[:0], c.ends[:0], frameHeader)
	start := 0
	for _, end := range c.ends {
		d := datagram{kind: datagramFrame, token: to.token, epoch: to.epoch}
		d.append(c.buf[start:start])
		start = end
	}
	return len(c.ends) > 0
}

// fillTrain makes a train of the next datagrams that have one size. It returns false if all have left.
func (c *Cable) fillTrain() bool {
	if c.train.Len() > 0 {
		return true // the socket was full
	}
	if c.sent == len(c.ends) {
		return false
	}
	c.train.Reset(c.to)
	for start := c.start(c.sent); c.sent < len(c.ends); c.sent++ {
		end := c.ends[c.sent]
		if !c.train.Begin(end - start) {
			break
		}
		c.train.Add(c.buf[start:end])
		start = end
	}
	return true
}

// start returns where datagram i begins.
func (c *outgoingFrames) start(i int) int {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// incoming is the receiving side of a socket. It handles frames in batches.
type incoming struct {
	socket *cableSocket
	got    []netio.Datagrams
	d      datagram
	cable  *Cable // that frames are for
	frames [][]byte
}

// maxHandled is how many frames are handled together.
const maxHandled = 32

// read handles datagrams until the socket is closed, or a device does.
func (w *cableSocket) read() {
	defer close(w.readerEnded)
	for !w.driven.Load() {
		n, err := w.receive()
		if n == 0 && err == nil {
			err = w.sock.Wait()
		}
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(time.Millisecond) // a persistent error must not take a core
		}
	}
}

// drive ends the goroutine that reads: the caller does so from now on.
func (w *cableSocket) drive() {
	w.driven.Store(true)
	w.sock.Wake()
	<-w.readerEnded
}

// receive handles datagrams that have come, and returns how many trains they were. It does not wait, not even for
// another goroutine that does the same: then there are none.
func (w *cableSocket) receive() (int, error) {
	if !w.receiving.TryLock() {
		return 0, nil
	}
	defer w.receiving.Unlock()
	in := &w.in
	n, err := w.sock.Recv(in.got)
	if n > 0 {
		now := time.Now()
		for i := range in.got[:n] {
			in.take(&in.got[i], now)
		}
		in.flush()
	}
	return n, err
}

// take handles the datagrams of one train.
func (in *incoming) take(g *netio.Datagrams, now time.Time) {
	for b := g.Data; len(b) > 0; {
		n := min(g.SegmentSize, len(b))
		in.handle(b[:n], g.From, now)
		b = b[n:]
	}
}

// handle handles a datagram. Frames wait for flush.
func (in *incoming) handle(b []byte, from netip.AddrPort, now time.Time) {
	w, d := in.socket, &in.d
	version, ok := d.decode(b)
	switch {
	case !ok:
		if w.host && len(b) >= datagramHeader+8 && version != 0 && version != cableVersion &&
			datagramKind(b[3]) == datagramHello {
			d.token = binary.BigEndian.Uint64(b[datagramHeader:])
			w.refuse(d, from, fmt.Sprintf("version %d of the protocol is spoken here, not %d", cableVersion, version))
		}
	case d.kind != datagramFrame:
		in.flush() // which came before
		w.handle(d, from)
	default:
		if in.cable == nil || in.cable.token != d.token || len(in.frames) == maxHandled {
			in.flush()
			in.cable = w.find(d.token)
		}
		if in.cable != nil && in.cable.admits(d, from, now) {
			in.frames = append(in.frames, d.frame)
		}
	}
}

// flush hands frames to the fabric.
func (in *incoming) flush() {
	if len(in.frames) > 0 {
		in.cable.remote.Handle(in.frames)
		in.frames = in.frames[:0]
	}
	in.cable = nil
}
