// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// flushTracker makes Linux rxe understand a FLUSH, whose ICRC it computes in a way of its own: see
// [ib.ICRCFlushOfRxe]. Nothing tells which kind the peer is. So a FLUSH has the specification's
// ICRC when it is sent for the first time. Each retransmission alternates between rxe's and the
// specification's.
type flushTracker struct {
	oddTimes map[flushKey]struct{} // sent an odd number of times
	last     []flushKey            // the FLUSHes of the current send
}

// flushKey identifies a FLUSH by the fields that stay the same when it is retransmitted.
type flushKey struct {
	to  netip.AddrPort
	qpn ib.QPN
	psn ib.PSN
}

// maxFlushes limits the FLUSHes that are remembered. A FLUSH that is forgotten starts over.
const maxFlushes = 1024

// begin begins a send.
func (f *flushTracker) begin() { f.last = f.last[:0] }

// isOdd reports whether the FLUSH of the current send that begins with b was sent an odd number of
// times.
func (f *flushTracker) isOdd(r *route, b []byte) bool {
	var h ib.BTH
	h.Decode(b)
	k := flushKey{r.to, h.DestQP, h.PSN}
	f.last = append(f.last, k)
	_, odd := f.oddTimes[k]
	return odd
}

// sent records that the current send has left.
func (f *flushTracker) sent() {
	for _, k := range f.last {
		if _, odd := f.oddTimes[k]; odd {
			delete(f.oddTimes, k)
			continue
		}
		if f.oddTimes == nil {
			f.oddTimes = make(map[flushKey]struct{})
		} else if len(f.oddTimes) == maxFlushes {
			clear(f.oddTimes)
		}
		f.oddTimes[k] = struct{}{}
	}
	f.last = f.last[:0]
}
