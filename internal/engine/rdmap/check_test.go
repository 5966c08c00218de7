// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// TestChangesAfterCheck has a program change memory that it sends, or that a peer reads, after the CRC
// was made and before the network takes the bytes: the bytes under the CRC are sent.
func TestChangesAfterCheck(t *testing.T) {
	for name, p := range modes {
		for _, n := range []int{100, 3000, 100_000} {
			a, b := pair(t, 1<<18, p)
			run(a, b, whole)
			fill(a.mem, n)
			want := bytes.Clone(a.mem[:n])
			b.recv(1, b.sge(0, n))
			a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, n)}})
			a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.at(1 << 17)})
			b.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{b.sge(1<<16, n/2)}, Remote: a.at(0)})
			b.transmit()
			a.arriveAll(b.wire)
			b.wire = nil
			a.transmit()
			clear(a.mem)
			run(a, b, whole)
			if b.lane.Counters.CRCErrors != 0 || b.qp.State() == verbs.StateError {
				t.Fatalf("%s, %d bytes: %d CRC errors, state %v", name, n, b.lane.Counters.CRCErrors, b.qp.State())
			}
			if !bytes.Equal(b.mem[1<<17:][:n], want) || !bytes.Equal(b.mem[1<<16:][:n/2], want[:n/2]) {
				t.Fatalf("%s, %d bytes: not what was there when it was sent", name, n)
			}
		}
	}
}

// TestBadCRC changes one byte of an FPDU on the way: the stream ends, and nothing of the FPDU is placed
// (RFC 5044 section 8).
func TestBadCRC(t *testing.T) {
	for name, p := range modes {
		if !p.CRC {
			continue
		}
		for _, n := range []int{100, 5000, 60_000} {
			p.ULPDU = MaxULPDU
			if p.MarkersOut {
				p.ULPDU = maxMarkedULPDU
			}
			a, b := pair(t, 1<<16, p)
			run(a, b, whole)
			fill(a.mem, 7)
			a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, min(n, p.ULPDU-iwarp.TaggedLen))},
				Remote: b.at(0)})
			a.transmit()
			a.wire[len(a.wire)-90] ^= 1
			before := bytes.Clone(b.mem)
			b.arriveAll(a.wire)
			if b.lane.Counters.CRCErrors != 1 || b.qp.State() != verbs.StateError {
				t.Fatalf("%s, %d bytes: %d CRC errors, state %v", name, n, b.lane.Counters.CRCErrors, b.qp.State())
			}
			if !bytes.Equal(before, b.mem) {
				t.Errorf("%s, %d bytes: some of it was placed", name, n)
			}
		}
	}
}
