// SPDX-License-Identifier: Apache-2.0

package ibta

import "time"

const (
	// breather is how long a queue pair waits for a peer whose buffer is full.
	breather = Time(50 * time.Microsecond)
	// stopped is how long a buffer stays full until nobody waits for it any more.
	stopped = Time(time.Second)
)

// Pace keeps what nobody acknowledges from overrunning socket buffers, where their state can
// be seen: on the same host. On hardware a lossless network does as much for UC and UD. The
// zero value holds nothing back.
type Pace struct {
	// Limit is how many bytes may leave between two looks.
	Limit int
	// Full says that a peer's buffer has hardly room for twice that.
	Full func(*Vector) bool

	unseen int // bytes since the last look
}

// overruns says whether a packet with n bytes of payload that nobody acknowledges has to wait
// for a peer that is slow to take what it was sent.
func (q *QP) overruns(now Time, to *Vector, n int) bool {
	p := &q.Device.Pace
	p.unseen += n + packetOverhead
	if p.Full == nil || p.unseen < p.Limit {
		return false
	}
	switch {
	case !p.Full(to):
		to.fullSince = 0
	case to.fullSince == 0 || now-to.fullSince < stopped:
		if to.fullSince == 0 {
			to.fullSince = now
		}
		q.req.quietUntil = now + breather
		return true
	}
	p.unseen = 0
	return false
}
