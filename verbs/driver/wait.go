// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

var forwardEvents = hook.ForwardEvents.(func(*verbs.CompChannel, func(*verbs.CQ)) func() int)

// ForwardEvents has f called with the queue of each completion event of a channel, in place of
// [verbs.CompChannel.Wait]. It runs where the event is generated, so it must neither block nor use the device. Call
// ForwardEvents before the channel has queues. It returns a function that returns of how many queues the
// program has requested an event that has not come yet.
func ForwardEvents(ch *verbs.CompChannel, f func(*verbs.CQ)) (armed func() int) {
	return forwardEvents(ch, f)
}

// PollSleeper is a [Device] in which a thread that waits for completions can move the data as in a [Sleeper], and sleep
// by itself, with poll(2). Signals and cancellation reach a thread of a C program there as in any system call.
type PollSleeper interface {
	// PollSleep moves data until w.Awake returns true, or another thread moves the data, and returns false then. It
	// returns true when the thread is to sleep as w says, and to call it again. readable says that w.Event was
	// readable.
	PollSleep(w *PollWait, readable bool) (sleep bool)
	// LeavePoll ends the wait of a thread that does not call PollSleep again.
	LeavePoll(w *PollWait)
}

// PollWait is the wait of one thread in a [PollSleeper].
type PollWait struct {
	Awake func() bool   // reports whether the wait is over; called with the driver's lock held
	Armed func() int    // returns how many queues of the thread's channel are armed: others wait for any more
	Spin  time.Duration // how long PollSleep polls before it returns true, at most

	Ticket uint32 // the driver's mark of the thread that moves the data; 0: this thread does not

	PollSet
}

// PollSet has the descriptors at which a thread sleeps until one of them is ready.
type PollSet struct {
	Event int           // to read, by which the driver wakes the thread
	Read  []int         // others to read
	Write int           // to write; negative: none
	Limit time.Duration // negative: none
}
