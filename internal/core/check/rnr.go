// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// endlessRNR is the rnr_retry of a queue pair that never gives up (IBTA 11.2.4.2).
const endlessRNR = 7

// A receiver that is a moment late is no mistake: a work request has met many RNR NAKs, or two and a long time.
const (
	manyRNR = 8
	fewRNR  = 2
	longRNR = 100 * time.Millisecond
)

// notReady reports a queue pair whose peer has no receive again and again, and which tries without a limit. It is
// called as work requests end, before that is noted.
func (d *Device) notReady(q *queuePair, ends int) {
	if q.rnr.reported || len(q.sends) == 0 {
		return
	}
	s, err := driver.QPOf(q.qp).Stats()
	if err != nil || s.RNRs == 0 || s.RNRRetry != endlessRNR {
		return
	}
	first := q.sends[0]
	n := int(s.RNRs-q.rnr.seen) - ends // at least: each send that ends may have met one
	q.rnr.seen = s.RNRs
	if n < fewRNR || n < manyRNR && time.Since(first.posted.When) < longRNR {
		return
	}
	q.rnr.reported = true
	d.report(q, &Finding{RNRUnlimited, fmt.Sprintf("%s of %s met about %d RNR NAKs, and rnr_retry is 7.", first.name(),
		d.nameOf(q.qp), n),
		[]Place{first.posted}})
}

// rnr counts the RNR NAKs of a queue pair.
type rnr struct {
	seen     uint64
	reported bool
}
