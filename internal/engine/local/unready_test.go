// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestUnready has messages of each sort wait for a receive, and fail.
func TestUnready(t *testing.T) {
	for name, wr := range map[string]verbs.SendWR{
		"SEND":      {Op: verbs.OpSendImm, SGL: []verbs.SGE{{Length: 8}}},
		"long SEND": {Op: verbs.OpSend, SGL: []verbs.SGE{{Length: 100_000}}},
		"WRITE":     {Op: verbs.OpWriteImm, SGL: []verbs.SGE{{Length: 8}}},
	} {
		for retries := range endless + 1 {
			a, b := newPair(t, true)
			a.qp.Attr().RNRRetry = retries
			wr.SGL[0], wr.Remote = a.sge(0, int(wr.SGL[0].Length)), b.remote(0)
			b.recv(1, 0, regionBytes)
			a.post(wr) // it finds a receive
			a.post(wr)
			settle(a, b)
			a.completes(verbs.StatusSuccess)
			b.completes(verbs.StatusSuccess)
			got, limited := b.qp.Patience()
			if got != retries || limited != (retries < endless) {
				t.Fatalf("%s: %d retries, limited %v; want %d", name, got, limited, retries)
			}
			if n := b.qp.Counts.SentRNRs; n != 1 {
				t.Errorf("%s: %d messages without a receive are counted", name, n)
			}
			b.qp.Deny()
			b.recv(2, 0, regionBytes) // too late
			settle(a, b)
			if retries == endless {
				a.completes(verbs.StatusSuccess)
				b.completes(verbs.StatusSuccess)
				continue
			}
			a.completes(verbs.StatusRNRRetryExceeded)
			b.completes()
			if a.qp.State() != verbs.StateError || b.qp.State() != verbs.StateRTS {
				t.Errorf("%s: the sender is in %v, the receiver in %v", name, a.qp.State(), b.qp.State())
			}
		}
	}
}

// TestBehindSend has operations posted behind a SEND that waits for a receive. They wait with it, in
// memory that the initiator reaches by itself too, and later operations stay behind them.
func TestBehindSend(t *testing.T) {
	a, b := newPair(t, true)
	pattern(a.region.Bytes()[:100], 5)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	settle(a, b)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 100)}, Remote: b.remote(1000)})
	a.post(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: []verbs.SGE{a.sge(200, 8)}, Remote: b.remote(2000)})
	settle(a, b)
	a.completes()
	mem := b.region.Bytes()
	if mem[1001] != 0 || mem[2000] != 0 {
		t.Error("an operation has overtaken a SEND that waits for a receive")
	}
	b.recv(1, 3000, 100)
	a.post(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: []verbs.SGE{a.sge(208, 8)}, Remote: b.remote(2000)})
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)
	if !bytes.Equal(mem[1000:1100], a.region.Bytes()[:100]) || mem[2000] != 2 || a.region.Bytes()[208] != 1 {
		t.Error("the operations were not carried out")
	}
	before := a.lane.Counters.Direct
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 100)}, Remote: b.remote(1000)})
	a.qp.Advance(1 << 20)
	if a.completes(verbs.StatusSuccess); a.lane.Counters.Direct != before+1 {
		t.Error("the peer is asked though nothing waits any more")
	}
}
