// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A READ into several pieces of memory is a request for each of them, and completes with the last byte of the
// last answer (RFC 5040 section 5.2): not before, and not later. So do work requests behind it.
func TestReadInPieces(t *testing.T) {
	for name, p := range modes {
		for depth := 1; depth <= 8; depth *= 2 {
			for _, lengths := range [][]int{{1}, {700, 800}, {5, 0, 2000, 90}, {3000, 1, 1, 1}} {
				a, b := pair(t, 1<<14, p)
				a.qp.ORD = uint16(depth)
				run(a, b, whole)
				for i := range b.mem {
					b.mem[i] = byte(1 + i%251)
				}
				total := 0
				var sgl []verbs.SGE
				for _, n := range lengths {
					sgl = append(sgl, a.sge(total, n))
					total += n
				}
				a.post(verbs.SendWR{ID: 1, Op: verbs.OpRead, SGL: sgl, Remote: b.at(0)})
				a.post(verbs.SendWR{ID: 2, Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(total, 10), a.sge(total+10, 20)},
					Remote: b.at(total)})
				ends := []int{total, total + 30} // of the answers to each
				byBytes(a, b, func(c queue.Completion) {
					if len(ends) == 0 || c.WC.ID != uint64(3-len(ends)) || c.WC.Status != verbs.StatusSuccess {
						t.Fatalf("%s, depth %d, %v: completion %+v", name, depth, lengths, c.WC)
					}
					if n := ends[0]; !bytes.Equal(a.mem[:n], b.mem[:n]) || a.mem[n] == b.mem[n] {
						t.Fatalf("%s, depth %d, %v: READ %d completes when its last byte has not come, or later", name,
							depth, lengths, c.WC.ID)
					}
					ends = ends[1:]
				})
				if len(ends) > 0 {
					t.Fatalf("%s, depth %d, %v: %d READs have not completed", name, depth, lengths, len(ends))
				}
			}
		}
	}
}

// byBytes moves the bytes that both ends send, to a one by one, and gives f each completion of a as it comes.
func byBytes(a, b *host, f func(queue.Completion)) {
	for a.transmit() || len(b.wire) > 0 {
		b.arriveAll(a.wire)
		a.wire = nil
		b.transmit()
		for i := range b.wire {
			a.arrive(b.wire[i : i+1])
			for _, c := range a.lane.Outbox.Completions {
				f(c)
			}
			a.lane.Outbox.Reset()
		}
		b.wire = nil
	}
}
