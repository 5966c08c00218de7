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
	// maxChunks limits the full chunks that wait for the io.Writer.
	maxChunks = 64
	// writeDelay is how long a packet waits for others to be written with it.
	writeDelay = 100 * time.Millisecond
)

var errComment = fmt.Errorf("trace: comment is longer than %d bytes", maxOptionLen)

// Writer writes packets as pcapng. Its methods may be called from several
// goroutines at once; packets are recorded in the order of the calls.
type Writer struct {
	out   io.Writer
	name  string        // of every interface
	first chan struct{} // capacity 1: packets wait, where none did; closed by Close
	flush chan struct{} // capacity 1: write now, do not wait for more
	done  chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex
	wrote   *sync.Cond // broadcast when written has grown
	backlog backlog
	written uint64 // bytes of the backlog written so far
	ifaces  [numInterfaces]iface
	count   uint32 // interfaces that are described
	last    int64  // the latest time of a packet, in nanoseconds since 1970
	closed  bool
	err     error // first error of the io.Writer
}

// kind is the first header of an interface's packets.
type kind int

const (
	ofIP kind = iota // described at the beginning, the other kinds before their first packet
	ofEthernet
	ofInfiniBand
	numInterfaces
)

var linkTypes = [numInterfaces]uint16{linkTypeRaw, linkTypeEthernet, linkTypeERF}

// iface is an interface of a recording, and counts its packets.
type iface struct {
	described bool
	number    uint32 // in the file, if it is described

	received uint64 // handed to the Writer
	dropped  uint64 // of these, dropped
	gap      uint64 // dropped since the last kept packet
}

// NewWriter writes the header of a recording to out and returns a Writer for its packets. iface
// names where they were captured, such as "roce:192.0.2.7". The error is one of out, or says that
// iface is too long.
//
// [Writer.Close] ends the recording. The caller closes out after it.
func NewWriter(out io.Writer, iface string) (*Writer, error) {
	if len(iface) > maxOptionLen {
		return nil, fmt.Errorf("trace: interface name is longer than %d bytes", maxOptionLen)
	}
	head := appendInterface(appendSection(nil, runtime.GOOS, "ramjet"), linkTypes[ofIP], iface)
	if err := writeAll(out, head); err != nil {
		return nil, err
	}
	w := &Writer{
		out:   out,
		name:  iface,
		count: 1,
		first: make(chan struct{}, 1),
		flush: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	w.ifaces[ofIP].described = true
	w.wrote = sync.NewCond(&w.mu)
	go w.run()
	return w, nil
}

// write records a packet of n bytes that encode appends.
func (w *Writer) write(k kind, at time.Time, dir Direction, comment string, n int, encode func([]byte) []byte) error {
	if len(comment) > maxOptionLen {
		return errComment
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return fmt.Errorf("trace: write: %w", fs.ErrClosed)
	}
	if ns := at.UnixNano(); ns > w.last {
		w.last = ns
	}
	i := &w.ifaces[k]
	i.received++
	opts := packetOptions{direction: dir, dropped: i.gap, comment: comment}
	size := packetSize(n, opts)
	var description []byte
	if !i.described {
		description = appendInterface(nil, linkTypes[k], w.name)
		size += len(description)
	}
	if !w.reserve(size) {
		i.dropped++
		i.gap++
		return nil
	}
	i.gap = 0
	if !i.described {
		i.described, i.number = true, w.count
		w.count++
	}
	w.backlog.add(func(b []byte) []byte {
		b = append(b, description...)
		start := len(b)
		b = beginPacket(b, i.number, at.UnixNano(), n)
		data := len(b)
		b = appendPadding(encode(b), data)
		return endBlock(opts.append(b), start)
	})
	return nil
}

// Flush waits until the packets recorded so far have been handed to the
// io.Writer, and returns its error if there was one.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	signal(w.flush)
	for target := w.backlog.added; w.written < target && w.err == nil; {
		w.wrote.Wait()
	}
	return w.err
}

// Dropped returns the number of packets dropped because the io.Writer was too slow.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := uint64(0)
	for k := range w.ifaces {
		n += w.ifaces[k].dropped
	}
	return n
}

// Close writes queued packets and the recording's statistics, which have the time of the last packet, and returns the
// io.Writer's first error. It does not close the io.Writer. Closing twice is harmless.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.backlog.add(func(b []byte) []byte {
			for k := range w.ifaces {
				if i := &w.ifaces[k]; i.described {
					b = appendStatistics(b, i.number, w.last, i.received, i.dropped)
				}
			}
			return b
		})
		signal(w.flush)
		close(w.first)
	}
	w.mu.Unlock()
	<-w.done
	return w.err // it does not change any more
}

// reserve makes room for n bytes in the backlog and makes sure that they will be written.
func (w *Writer) reserve(n int) bool {
	switch {
	case w.backlog.empty():
		signal(w.first)
	case !w.backlog.fits(n):
		signal(w.flush)
	}
	return w.backlog.fits(n) || w.backlog.grow()
}

// run writes the backlog to the io.Writer until Close.
func (w *Writer) run() {
	defer close(w.done)
	for range w.first {
		select {
		case <-w.flush:
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
