// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
)

// What there is to send and to receive may be endless: a peer's READs ask for gigabytes with a few
// packets. So a device works in turns. Between two of them it gives its lock up, so that programs
// can post and poll; each begins with what has arrived and with the timers that are due. A turn
// ends with the send or the read that reaches one of these limits, and the next one goes on with
// the queue pair or stream that would have been next.
const (
	// turnBytes is what a device with packets sends in a turn: some 100 µs of copying. What it
	// receives in one is what its port has buffers for.
	turnBytes = 256 << 10
	// streamTurnBytes is what a device with streams sends in a turn: they take more in one call.
	streamTurnBytes = 2 << 20
	// streamReads is how many reads the streams of a device share in a turn; each gets one at
	// least, and streamTurns at most. That is also how many writes a stream gets.
	streamReads = 32
	streamTurns = 8
	// turnTime is for when the bytes take longer than they should.
	turnTime = ibta.Time(time.Millisecond)
	// turnPosts is how many work requests of a list are posted in a turn, if the list need not be
	// posted as a whole: their inline data are copied.
	turnPosts = 512
	// turnTimers is how many timers run in a turn.
	turnTimers = 1024
	// lastTurns is how many turns a device has to send the rest before it is closed.
	lastTurns = 16
)

// turn is how much has been sent in the present turn.
type turn struct {
	start ibta.Time
	bytes int
	over  bool
}

// sent notes n bytes, and that the turn is over if they reach a limit.
func (t *turn) sent(n, limit int, now ibta.Time) {
	t.bytes += n
	t.over = t.over || t.bytes >= limit || now-t.start >= turnTime
}

// inTurns posts a list in parts, each of which takes the device's lock by itself.
func inTurns[WR any](wrs []WR, post func([]WR) (int, error)) (n int, err error) {
	for {
		posted, err := post(wrs[n:min(n+turnPosts, len(wrs))])
		if n += posted; err != nil || n >= len(wrs) {
			return n, err
		}
	}
}
