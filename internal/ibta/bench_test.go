// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/internal/sim"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// end is one of two engines that hand each other their packets.
type end struct {
	*sim.QP
	batch *ibta.Batch
	frame []byte
	p     ib.Packet
	done  int
}

// pass hands what e has to send to the other side.
func (e *end) pass(now ibta.Time, to *end) (sent bool) {
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
			to.HandlePacket(now, &to.p, grh{})
		}
	}
	o := &e.Host.Device.Outbox
	e.done += len(o.Completions)
	o.Reset()
	return sent
}

// BenchmarkEngine passes messages of 64 KiB from one engine to another, in order and without a
// loss. It allocates nothing.
func BenchmarkEngine(b *testing.B) {
	const n, depth = 64 << 10, 16
	for _, op := range []verbs.SendOp{verbs.Write, verbs.Read} {
		b.Run(op.String(), func(b *testing.B) {
			net := sim.New(1)
			h, g := net.NewHost(1<<20), net.NewHost(1<<20)
			net.Connect(h, g, sim.Link{}, sim.Link{})
			p := sim.Defaults
			p.MTU, p.RdAtomic = verbs.MTU4096, 16
			cq := queue.NewCQ(1, verbs.CQEvents{})
			c := ibta.Config{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Caps: verbs.QPCap{MaxSendWR: depth, MaxSendSGE: 1}}
			here := &end{QP: h.NewQP(c), batch: ibta.NewBatch(64, 65507)}
			there := &end{QP: g.NewQP(c), batch: ibta.NewBatch(64, 65507)}
			if err := sim.Join(here.QP, there.QP, p); err != nil {
				b.Fatal(err)
			}
			local, err := h.PD.RegMR(make([]byte, n), everything)
			if err != nil {
				b.Fatal(err)
			}
			remote, err := g.PD.RegMR(make([]byte, n), everything)
			if err != nil {
				b.Fatal(err)
			}
			wr := []verbs.SendWR{{Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{local.SGE(0, n)}, Remote: remote.Remote()}}
			posted := 0
			now := ibta.Time(1)
			b.ReportAllocs()
			b.ResetTimer()
			for here.done < b.N {
				for posted < b.N && posted-here.done < depth {
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
