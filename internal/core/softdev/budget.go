// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// A device may have no end of data to send and to receive: a few packets of a peer's READs request
// gigabytes. So each pass has a budget. Between two passes the device releases its lock, so that
// programs can post and poll. A pass begins with received data and expired timers. It ends with
// the send or the read that reaches one of these limits, and the next one continues with the queue
// pair or stream that would have been next.
const (
	// budgetTime ends passes whose bytes take unusually long.
	budgetTime = clock.Time(time.Millisecond)
	// budgetPosts is how many work requests of a list are posted in a pass, unless the list must be
	// posted as a whole: their inline data is copied.
	budgetPosts = 512
	// budgetTimers limits the timers that run in a pass.
	budgetTimers = 1024
)

// Budget counts the packets and bytes that the current pass has sent.
type Budget struct {
	Start clock.Time
	bytes int
	Over  bool
}

// Sent counts n bytes, and ends the pass if they reach a limit.
func (b *Budget) Sent(n, limit int, now clock.Time) {
	b.bytes += n
	b.Over = b.Over || b.bytes >= limit || now-b.Start >= budgetTime
}

// postInParts posts a list in parts, each of which takes the device's lock by itself.
func postInParts[WR any](wrs []WR, post func([]WR) (int, error)) (n int, err error) {
	for {
		posted, err := post(wrs[n:min(n+budgetPosts, len(wrs))])
		if n += posted; err != nil || n >= len(wrs) {
			return n, err
		}
	}
}
