// SPDX-License-Identifier: Apache-2.0

package smbdirect

import "time"

// idle is the Idle Connection Timer (MS-SMBD 3.1.2.2): it asks a silent peer for a message, and gives it up when
// none comes.
type idle struct {
	interval time.Duration // without a message, until one is asked for
	response time.Duration // after that, until the peer is given up
	deadline time.Time
	asked    bool
}

// verdict is the action when the timer expires.
type verdict int

const (
	waiting verdict = iota // not expired
	ask                    // for a message
	dead                   // the peer
)

// received takes note of a message of the peer.
func (i *idle) received(now time.Time) { i.deadline, i.asked = now.Add(i.interval), false }

// check returns the verdict on an idle connection.
func (i *idle) check(now time.Time) verdict {
	switch {
	case now.Before(i.deadline):
		return waiting
	case i.asked:
		return dead
	}
	i.asked = true
	i.deadline = now.Add(i.response)
	return ask
}
