// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// maxDead is how many keys of regions and windows that have ended are remembered.
const maxDead = 1024

// deadKeys are the keys of regions that were deregistered, and of windows that are bound no more.
type deadKeys struct {
	all    map[verbs.Key]deadKey
	oldest []verbs.Key
}

type deadKey struct {
	name string // of the region or window
	pd   any
	made Place
	gone Place
}

func (k *deadKeys) add(key verbs.Key, o *object, gone Place) {
	if k.all == nil {
		k.all = map[verbs.Key]deadKey{}
	}
	k.all[key] = deadKey{o.name(), o.pd, o.made, gone}
	k.oldest = append(k.oldest, key)
	if len(k.oldest) > maxDead {
		delete(k.all, k.oldest[0])
		k.oldest = slices.Delete(k.oldest, 0, 1)
	}
}

// refused reports why a queue pair has refused a request of its peer, if a mistake is behind it. A queue pair that
// refuses one stops.
func (d *Device) refused(q *queuePair) {
	f := driver.QPOf(q.qp).Failure()
	if f == nil || f.Side != verbs.FailedRequest || q.refusal == f {
		return
	}
	q.refusal = f
	what := fmt.Sprintf("The peer of %s asked for %v of %d bytes at %#x", d.nameOf(q.qp), f.Op, f.Length, f.Addr)
	seen := at("It was seen")
	switch f.Reason {
	case verbs.ReasonNoKey:
		if k, ok := d.dead.all[f.Key]; ok {
			d.report(q, &Finding{KeyInUse, fmt.Sprintf("%s of %s, and its key had ended.", what, k.name),
				[]Place{k.gone, seen}})
		}
	case verbs.ReasonOtherOwner:
		k := d.dead.all[f.Key] // it may have ended since
		if r := d.known.regions[f.Key]; r != nil {
			k = deadKey{name: d.nameOf(r.mr), pd: r.pd, made: d.known.all[r.mr].made}
		}
		if k.pd != nil && k.pd != q.pd {
			d.report(q, &Finding{ForeignPD, fmt.Sprintf("%s of %s, which is of %s: the queue pair is of %s.", what,
				k.name, d.nameOf(k.pd),
				d.nameOf(q.pd)), []Place{k.made, d.known.all[q.qp].made}})
		}
	case verbs.ReasonTooMany:
		d.report(q, &Finding{RdAtomicDepth,
			fmt.Sprintf("%s, one more than %s takes at once: its max_dest_rd_atomic is %d.", what, d.nameOf(q.qp),
				q.maxDestRdAtomic), []Place{seen}})
	}
}

// depth checks that a queue pair may not have more READs and atomics outstanding than its peer takes, as far as it is
// known.
func (d *Device) depth(q *queuePair, r *request) {
	l, peer, ok := d.c.history.deeper(endpoint{d, q.qp.Num()})
	if !ok {
		return
	}
	d.c.Report(&Finding{RdAtomicDepth,
		fmt.Sprintf("max_rd_atomic of %s is %d, and max_dest_rd_atomic of %s, its peer, is %d.", l.name, l.rd,
			peer.name, peer.destRd), []Place{r.posted}})
}

// deeper returns a queue pair and its peer, once, if its READs may be more than the peer takes.
func (h *history) deeper(e endpoint) (l, peer postLog, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	here, there := h.logs[e], h.peer(e)
	if here == nil || there == nil || here.reported || !there.hasDest || here.rd <= there.destRd {
		return postLog{}, postLog{}, false
	}
	here.reported = true
	return postLog{name: here.name, rd: here.rd}, postLog{name: there.name, destRd: there.destRd}, true
}
