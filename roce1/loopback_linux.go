// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
)

// maxLoopback is from how many bytes that wait on nothing more is taken, for the next Receive.
const maxLoopback = 1 << 20

// loopbackFrames are the frames of a device to itself. A frame that leaves an interface does not come back to it,
// and adapters do not send what is for themselves either.
type loopbackFrames struct {
	ready  atomic.Bool // frames wait
	frames []byte      // each after its length in four bytes
	taken  []byte      // memory for the next ones
	lost   uint64      // frames that found no room, not counted yet
}

// full reports whether it takes no more for now.
func (o *loopbackFrames) full() bool { return len(o.frames) >= maxLoopback }

// keep keeps frames for the next Receive. It reports whether there were none before: somebody may be
// waiting for some.
func (o *loopbackFrames) keep(frames []etherring.Out) (first bool) {
	if o.full() { // by then they are a group's
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

// take calls deliver for each frame, and returns how many there were.
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
