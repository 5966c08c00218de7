// SPDX-License-Identifier: Apache-2.0

package ibta

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// timer is one of the things that a queue pair waits for.
type timer uint8

const (
	timerQuiet       timer = iota // the peer is not ready (RNR), or too slow: nothing is sent before
	timerRetransmit               // packets in flight are not acknowledged by then
	timerNAK                      // a NAK that came early is decided on
	timerLine                     // members in line for the flow's window may go on, as its congestion control says
	timerSend                     // the queue pair's own congestion control allows the next send
	timerRespond                  // congestion control allows the next responses to READs
	timerRequestGap               // a request that is missing counts as lost
	timerResponseGap              // likewise a response
	numTimers
)

// timers are all deadlines of a queue pair; zero: the timer does not run.
type timers [numTimers]clock.Time

func (t *timers) running(w timer) bool       { return t[w] != 0 }
func (t *timers) set(w timer, at clock.Time) { t[w] = at }
func (t *timers) stop(w timer)               { t[w] = 0 }

// expired stops a timer whose time has come, and returns when that was; zero: it has not, or does not run.
func (t *timers) expired(w timer, now clock.Time) (due clock.Time) {
	if due = t[w]; due > now {
		return 0
	}
	t[w] = 0
	return due
}

// next returns when the next timer expires; zero: none runs.
func (t *timers) next() (due clock.Time) {
	for _, at := range t {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	return due
}
