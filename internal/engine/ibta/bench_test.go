// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// end is one of two engines that hand each other their packets.
type end struct {
	*qp
	batch *ibta.Batch
	frame []byte
	p     ib.Packet
	done  int
}

// pass hands e's packets to the other side.
func (e *end) pass(now clock.Time, to *end) (sent bool) {
	for e.NextPackets(now, e.batch) {
		sent = true
		for i := range e.batch.Len() {
			out := e.batch.Packet(i)
			e.frame = append(e.frame[:0], out.Head...)
			for _, piece := range out.Payload {
				e.frame = append(e.frame, piece...)
			}
			e.frame = append(e.frame, out.Tail...)
			if err := to.p.Decode(e.frame[:len(e.frame)-4]); err != nil {
				panic(err)
			}
			to.HandlePacket(now, &to.p, arrival)
		}
	}
	o := &e.host.lane.Outbox
	e.done += len(o.Completions)
	o.Reset()
	return sent
}

// BenchmarkEngine passes messages from one engine to another, in order and without a loss: long
// ones, and as many short ones as are posted at once. It allocates nothing.
func BenchmarkEngine(b *testing.B) {
	const depth = 16
	for _, c := range []struct {
		op verbs.SendOp
		n  int
	}{{verbs.OpWrite, 64 << 10}, {verbs.OpRead, 64 << 10}, {verbs.OpWrite, 64}, {verbs.OpSend, 64},
		{verbs.OpRead, 64}} {
		b.Run(fmt.Sprintf("%v/%d", c.op, c.n), func(b *testing.B) {
			h, g := newHosts(b, 1<<20)
			here := &end{qp: h.newRC(depth), batch: ibta.NewBatch(limits(1 << 20))}
			there := &end{qp: g.newRC(depth), batch: ibta.NewBatch(limits(1 << 20))}
			join(b, here.qp, there.qp, verbs.MTU4096)
			local, err := h.pd.RegMR(make([]byte, c.n), everything)
			if err != nil {
				b.Fatal(err)
			}
			remote, err := g.pd.RegMR(make([]byte, c.n), everything)
			if err != nil {
				b.Fatal(err)
			}
			wr := []verbs.SendWR{{Op: c.op, Flags: verbs.Signaled, SGL: []verbs.SGE{local.SGE(0, c.n)},
				Remote: remote.Remote()}}
			recv := []verbs.RecvWR{{SGL: []verbs.SGE{remote.SGE(0, c.n)}}}
			posted := 0
			now := clock.Time(1)
			b.ReportAllocs()
			b.ResetTimer()
			for here.done < b.N {
				for posted < b.N && posted-here.done < depth {
					if c.op == verbs.OpSend {
						if _, err := there.PostRecv(recv); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := here.PostSend(wr); err != nil {
						b.Fatal(err)
					}
					posted++
				}
				now += 10_000
				if !here.pass(now, there) && !there.pass(now, here) {
					b.Fatal("nothing moves")
				}
				there.pass(now, here)
				here.pass(now, there)
			}
		})
	}
}
