// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"time"
)

const (
	// chunkLen is how many bytes go to the io.Writer at once. The longest
	// packet fits with its comment.
	chunkLen = 256 << 10
	// maxChunks is how many full chunks may wait for the io.Writer.
	maxChunks = 64
	// writeDelay is how long a packet waits for others to be written with it.
	writeDelay = 100 * time.Millisecond
)

// Writer writes packets as pcapng. Its methods may be called from several
// goroutines at once; packets are recorded in the order of the calls.
type Writer struct {
	out   io.Writer
	first chan struct{} // capacity 1: packets wait, where none did; closed by Close
	hurry chan struct{} // capacity 1: don't wait for more
	done  chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex
	wrote   *sync.Cond // broadcast when written has grown
	backlog backlog
	written uint64 // bytes of the backlog that were written
	stats   stats
	closed  bool
	err     error // the io.Writer's first
}

// stats counts packets.
type stats struct {
	received uint64 // handed to the Writer
	dropped  uint64 // and left out
	gap      uint64 // left out since the last one that was kept
}

// NewWriter writes the head of a recording to out and returns a Writer for its
// packets. iface names where they were seen, such as "roce:192.0.2.7". The
// error is one of out, or says that iface is too long.
//
// [Writer.Close] ends the recording; out stays the caller's to close after it.
func NewWriter(out io.Writer, iface string) (*Writer, error) {
	if len(iface) > maxOptionLen {
		return nil, fmt.Errorf("trace: interface name is longer than %d bytes", maxOptionLen)
	}
	head := appendInterface(appendSection(nil, runtime.GOOS, "ramjet"), iface)
	if err := writeAll(out, head); err != nil {
		return nil, err
	}
	w := &Writer{
		out:   out,
		first: make(chan struct{}, 1),
		hurry: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	w.wrote = sync.NewCond(&w.mu)
	go w.run()
	return w, nil
}

// WriteUDP records a UDP datagram whose payload is the concatenation of the
// parts: for RoCEv2 the BTH up to and including the ICRC. Headers come from h;
// the IPv4 header checksum and, over IPv6, the UDP checksum are computed. The
// parts are the caller's again on return.
//
// A packet that finds the backlog full is left out; that is no error and
// [Writer.Dropped] counts it. An error says that h or the payload cannot be
// recorded, that the Writer is closed (fs.ErrClosed), or that the io.Writer
// failed earlier.
func (w *Writer) WriteUDP(h *UDP, payload ...[]byte) error {
	d, err := newDatagram(h, payload)
	if err != nil {
		return err
	}
	n := d.size()

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return fmt.Errorf("trace: write: %w", fs.ErrClosed)
	}
	w.stats.received++
	opts := packetOptions{direction: h.Direction, dropped: w.stats.gap, comment: h.Comment}
	if !w.reserve(packetSize(n, opts)) {
		w.stats.dropped++
		w.stats.gap++
		return nil
	}
	w.stats.gap = 0
	w.backlog.add(func(b []byte) []byte {
		start := len(b)
		b = beginPacket(b, h.At.UnixNano(), n)
		data := len(b)
		b = appendPadding(d.append(b, h, payload), data)
		return endBlock(opts.append(b), start)
	})
	return nil
}

// Flush waits until the packets recorded so far have been handed to the
// io.Writer, and returns its error if there was one.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	signal(w.hurry)
	for target := w.backlog.added; w.written < target && w.err == nil; {
		w.wrote.Wait()
	}
	return w.err
}

// Dropped is the number of packets left out because the io.Writer was too slow.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats.dropped
}

// Close writes what waits and the recording's statistics, and returns the
// io.Writer's first error. It does not close the io.Writer. Closing twice is
// harmless.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.backlog.add(func(b []byte) []byte {
			return appendStatistics(b, time.Now().UnixNano(), w.stats.received, w.stats.dropped)
		})
		signal(w.hurry)
		close(w.first)
	}
	w.mu.Unlock()
	<-w.done
	return w.err // nobody changes it any more
}

// reserve makes room for n bytes in the backlog and sees to it that they will
// be written.
func (w *Writer) reserve(n int) bool {
	switch {
	case w.backlog.empty():
		signal(w.first)
	case !w.backlog.fits(n):
		signal(w.hurry)
	}
	return w.backlog.fits(n) || w.backlog.grow()
}

// run writes the backlog to the io.Writer until Close.
func (w *Writer) run() {
	defer close(w.done)
	for range w.first {
		select {
		case <-w.hurry:
		case <-time.After(writeDelay):
		}
		w.drain()
	}
	w.drain()
}

// drain writes until the backlog is empty.
func (w *Writer) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.backlog.empty() {
		chunk := w.backlog.take()
		if w.err == nil {
			w.mu.Unlock()
			err := writeAll(w.out, chunk)
			w.mu.Lock()
			w.err = err
		}
		w.written += uint64(len(chunk))
		w.backlog.recycle(chunk)
		w.wrote.Broadcast()
	}
}

// signal leaves a token in c unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func writeAll(out io.Writer, b []byte) error {
	n, err := out.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("trace: write: %w", err)
	}
	return nil
}
