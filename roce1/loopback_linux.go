// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
)

// maxLoopback is the number of queued bytes from which on no more loopback frames are accepted.
const maxLoopback = 1 << 20

// loopbackFrames are the frames of a device to itself. An interface does not receive its own frames, and adapters
// do not send theirs on the wire either.
type loopbackFrames struct {
	ready  atomic.Bool // frames wait
	frames []byte      // each preceded by its length in four bytes
	taken  []byte      // the previous buffer, for reuse
	lost   uint64      // frames dropped, not counted yet
}

// full reports whether no more frames are accepted now.
func (o *loopbackFrames) full() bool { return len(o.frames) >= maxLoopback }

// keep queues frames for the next Receive. It reports whether the queue was empty, so that a waiter must be woken.
func (o *loopbackFrames) keep(frames []etherring.Out) (first bool) {
	if o.full() { // only frames to groups get here
		o.lost += uint64(len(frames))
		return false
	}
	first = len(o.frames) == 0
	for i := range frames {
		f := &frames[i]
		o.frames = binary.NativeEndian.AppendUint32(o.frames, uint32(len(f.Head)+len(f.Body)))
		o.frames = append(o.frames, f.Head...)
		o.frames = append(o.frames, f.Body...)
	}
	o.ready.Store(true)
	return first
}

// take delivers the queued frames, and returns how many there were.
func (o *loopbackFrames) take(deliver func(frame []byte)) (n int) {
	if !o.ready.Load() {
		return 0
	}
	o.ready.Store(false)
	all := o.frames
	o.frames = o.taken[:0]
	for rest := all; len(rest) > 0; n++ {
		size := 4 + int(binary.NativeEndian.Uint32(rest))
		deliver(rest[4:size])
		rest = rest[size:]
	}
	o.taken = all
	return n
}
