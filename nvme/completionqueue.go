// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// completionQueue is the completion queue of a queue pair. A goroutine that waits for an I/O queue's moves the device's
// data meanwhile (see [verbs.CQ.Wait]), which only one goroutine of a device can. A goroutine that waits for an admin
// queue's leaves this to others: hardly anything arrives there.
type completionQueue struct {
	*verbs.CQ
	event chan struct{} // one element: a completion has arrived; nil: of an I/O queue
}

func newCompletionQueue(dev *verbs.Device, entries int, qid uint16) (*completionQueue, error) {
	q, opt := &completionQueue{}, verbs.CQOptions{NoTimestamps: true}
	if qid == 0 {
		q.event = make(chan struct{}, 1)
		opt.Deferrable = true
		opt.Notify = func() {
			select {
			case q.event <- struct{}{}:
			default:
			}
		}
	}
	var err error
	if q.CQ, err = dev.CreateCQ(entries, &opt); err != nil {
		return nil, err
	}
	return q, nil
}

// Wait is like that of [verbs.CQ].
func (q *completionQueue) Wait(ctx context.Context, wcs []verbs.WC) (int, error) {
	if q.event == nil {
		return q.CQ.Wait(ctx, wcs)
	}
	for {
		if err := q.ReqNotify(false); err != nil {
			return 0, err
		}
		if n := q.Poll(wcs); n > 0 {
			return n, nil
		}
		if err := q.Err(); err != nil {
			return 0, err
		}
		select {
		case <-q.event:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
