// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkEngine passes messages from one engine to another: long ones, and as many short ones
// as are posted at once. It allocates nothing.
func BenchmarkEngine(b *testing.B) {
	const depth = 16
	for _, c := range []struct {
		op verbs.SendOp
		n  int
	}{{verbs.OpWrite, 64 << 10}, {verbs.OpRead, 64 << 10}, {verbs.OpWrite, 64}, {verbs.OpSend, 64},
		{verbs.OpRead, 64}} {
		b.Run(fmt.Sprintf("%v/%d", c.op, c.n), func(b *testing.B) {
			here, there := pair(b, c.n, Params{CRC: true})
			done := 0
			// pass hands the FPDUs of one side to the other.
			pass := func(from, to *host) {
				from.transmit()
				for len(from.wire) > 0 {
					n := to.arrive(from.wire)
					if n == 0 {
						b.Fatal("nothing moves")
					}
					from.wire = append(from.wire[:0], from.wire[n:]...)
				}
			}
			// drain drops an end's completions and events, and returns the number of completions.
			drain := func(h *host) int {
				n := len(h.lane.Outbox.Completions)
				h.lane.Outbox.Reset()
				return n
			}
			pass(here, there) // it says that it is ready
			wr := []verbs.SendWR{{Op: c.op, Flags: verbs.Signaled, SGL: []verbs.SGE{here.sge(0, c.n)},
				Remote: there.at(0)}}
			recv := []verbs.RecvWR{{SGL: []verbs.SGE{there.sge(0, c.n)}}}
			posted := 0
			b.ReportAllocs()
			b.ResetTimer()
			for done < b.N {
				for posted < b.N && posted-done < depth {
					if c.op == verbs.OpSend {
						if _, err := there.qp.PostRecv(recv); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := here.qp.PostSend(wr); err != nil {
						b.Fatal(err)
					}
					posted++
				}
				pass(here, there)
				drain(there)
				pass(there, here)
				done += drain(here)
			}
		})
	}
}
