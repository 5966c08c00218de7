// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"math/rand/v2"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// srqLimit arms the limit of a shared receive queue again and again, and holds that each arming raises one
// event at most, and the first one does once fewer receives are left (IBTA 10.2.9.1). Later armings may raise
// none: messages may take receives before the limit is armed.
type srqLimit struct {
	srq   *verbs.SRQ // nil: there is none
	rand  *rand.Rand
	left  int // receives that were posted, and whose completion was not seen: the queue has no more
	armed int // the limit; 0: it is not armed
	due   int // events that were raised, by the queue's limit
}

// arm arms the limit of a queue for so many receives.
func (l *srqLimit) arm(size int) error {
	if l.srq == nil {
		return nil
	}
	l.armed = 1 + l.rand.IntN(size)
	return l.srq.Modify(verbs.SRQAttr{Limit: l.armed}, verbs.SRQLimit)
}

// took takes the completion of a receive.
func (l *srqLimit) took() error {
	if l.srq == nil {
		return nil
	}
	l.left--
	switch limit := l.srq.Query().Limit; {
	case limit == 0:
		l.due++
		return l.arm(l.left + 1)
	case limit != l.armed:
		return wrongf("the limit is %d, want %d", limit, l.armed)
	case l.due == 0 && l.left < limit:
		return wrongf("%d receives are left, and the limit of %d is still armed", l.left, limit)
	}
	return nil
}

// ended holds that there were as many events as the queue said.
func (l *srqLimit) ended(d *verbs.Device) error {
	if l.srq == nil {
		return nil
	}
	if l.srq.Query().Limit == 0 {
		l.due++
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	raised := 0
	for {
		e, err := d.Event(now)
		if err != nil {
			break
		}
		if e.Type == verbs.EventSRQLimitReached {
			raised++
		}
	}
	if raised != l.due {
		return wrongf("%d events that the limit is reached, want %d", raised, l.due)
	}
	return nil
}
