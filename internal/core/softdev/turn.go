// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

// What there is to send and to receive may be endless: a peer's READs request gigabytes with a few
// packets. So a device works in turns. Between two of them it releases its lock, so that programs
// can post and poll. Each turn begins with what has arrived and with expired timers. It ends with
// the send or the read that reaches one of these limits, and the next one continues with the queue
// pair or stream that would have been next.
const (
	// turnBytes is what a device with packets sends in a turn: about 100 µs of copying. It receives
	// what its port has buffers for.
	turnBytes = 256 << 10
	// streamTurnBytes is what a device with streams sends in a turn: they take more in one call.
	streamTurnBytes = 2 << 20
	// streamReads is how many reads the streams of a device share in a turn. Each gets at least
	// one, and at most streamTurns, which also limits the writes of a stream.
	streamReads = 32
	streamTurns = 8
	// turnTime ends turns whose bytes take unusually long.
	turnTime = clock.Time(time.Millisecond)
	// turnPosts is how many work requests of a list are posted in a turn, unless the list must be
	// posted as a whole: their inline data is copied.
	turnPosts = 512
	// turnTimers limits the timers that run in a turn.
	turnTimers = 1024
	// lastTurns limits the turns in which a device sends the rest before it is closed.
	lastTurns = 16
)

// turn is what has been sent in the current turn.
type turn struct {
	start clock.Time
	bytes int
	over  bool
}

// sent counts n bytes, and ends the turn if they reach a limit.
func (t *turn) sent(n, limit int, now clock.Time) {
	t.bytes += n
	t.over = t.over || t.bytes >= limit || now-t.start >= turnTime
}

// postInParts posts a list in parts, each of which takes the device's lock by itself.
func postInParts[WR any](wrs []WR, post func([]WR) (int, error)) (n int, err error) {
	for {
		posted, err := post(wrs[n:min(n+turnPosts, len(wrs))])
		if n += posted; err != nil || n >= len(wrs) {
			return n, err
		}
	}
}
