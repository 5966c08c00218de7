// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// State that tests with devices of packets look at, and bring about. The lane's lock is held, unless a comment says
// otherwise.

const (
	BudgetPosts = budgetPosts
	BusyPolls   = busyPolls
	EmptyPolls  = emptyPolls
	MaxPark     = maxPark
)

// ProgramPolls reports whether the goroutine stays away from the data. It needs no lock.
func (l *Lane) ProgramPolls() bool { return l.polls.programPolls.Load() }

// OwnsPoll reports whether a program that waits moves the data.
func (l *Lane) OwnsPoll() bool { return l.pollOwner.owned }

// OthersWait reports whether somebody waits for whom data has to be moved, and whose queue is not one of own.
func (d *Device) OthersWait(own int) bool { return d.othersWait(own) }

// ParkAt has programs park at a port of a crowded machine.
func (l *Lane) ParkAt(port Parker) { l.parker, l.crowded = port, func() bool { return true } }

// Share has the next poll that finds nothing park.
func (l *Lane) Share() { l.spinner = spinner{polls: crowdedAfter, close: true, crowded: true} }

// ShareAtOnce has the next polls that find no completion park without a look at the network before.
func (l *Lane) ShareAtOnce() { l.spinner = spinner{atOnce: atOnce, close: true, crowded: true} }

// Slept makes the machine a quiet one, where a program has slept after polls that followed each other closely, and was
// to park after one more.
func (l *Lane) Slept() {
	l.crowded = func() bool { return false }
	l.spinner = spinner{close: true, empty: emptyPolls - 1, looked: l.Now() - clock.Time(time.Second/2)}
}

// Found reports whether the last poll found something.
func (l *Lane) Found() bool { return l.spinner.polls == 0 && l.spinner.looked == 0 }

// PollAt has threads sleep outside of Go at a port.
func (l *Lane) PollAt(port PollWaiter) { l.pollWaiter = port }
