// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

const (
	// fullPause is how long a queue pair pauses for a peer whose buffer is full.
	fullPause = clock.Time(50 * time.Microsecond)
	// fullLimit is how long a requester waits for a buffer that stays full.
	fullLimit = clock.Time(time.Second)
)

// pace keeps unacknowledged traffic from overrunning the peer's buffer, if the state of that is
// known. A lossless network does the same for UC and UD.
type pace struct {
	unseen int // bytes since the buffer was last checked
}

// overhead returns the space that a packet takes in the peer's buffer beyond its payload.
func (q *QP) overhead() int { return q.Device.Limits.Overhead }

// overruns reports whether an unacknowledged packet with n bytes of payload has to wait for a peer
// that is slow to receive.
func (q *QP) overruns(now clock.Time, to *Vector, n int) bool {
	p := &q.lane.pace
	p.unseen += n + q.overhead()
	if p.unseen < q.Device.Limits.Window/2 {
		return false
	}
	switch {
	case !to.Path.Full():
		to.fullSince = 0
	case to.fullSince == 0 || now-to.fullSince < fullLimit:
		if to.fullSince == 0 {
			to.fullSince = now
		}
		q.timers.set(timerQuiet, now+fullPause)
		return true
	}
	p.unseen = 0
	return false
}
