// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// crowd is many queue pairs that share the window to one host. They are drained as a device
// does it, one send of each in turn. Their packets are dropped.
type crowd struct {
	*testing.T
	host  *host
	flow  *ibta.Flow
	batch *ibta.Batch
	qps   []*qp
	ready []*qp
	asked []ib.Packet // with AckReq, not yet acknowledged, in the order sent
	last  map[*qp]ib.Packet
	bytes map[*qp]int // that were sent, or asked for by READs
	sends int
	total int // packets
}

const (
	crowdMessage = 1 << 20
	crowdTime    = clock.Time(1) // constant: no test waits
)

// newCrowd makes n queue pairs that have depth messages of a kind to send.
func newCrowd(t *testing.T, n, window, depth int, op verbs.SendOp) *crowd {
	t.Helper()
	return newCrowdUnder(t, nil, n, window, depth, op)
}

// newCrowdUnder is newCrowd with a congestion control.
func newCrowdUnder(t *testing.T, control func() congestion.Controller, n, window, depth int, op verbs.SendOp) *crowd {
	t.Helper()
	a, b := newHosts(t, window)
	a.control = control
	c := &crowd{T: t, host: a, flow: a.flow(b.gid()), batch: ibta.NewBatch(limits(1 << 20)),
		last: make(map[*qp]ib.Packet), bytes: make(map[*qp]int)}
	mr, err := a.pd.RegMR(make([]byte, crowdMessage), everything)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		q, peer := a.newRC(depth), b.newRC(depth)
		join(t, q, peer, verbs.MTU4096)
		for range depth {
			if _, err := q.PostSend([]verbs.SendWR{{Op: op, SGL: []verbs.SGE{mr.SGE(0, crowdMessage)}}}); err != nil {
				t.Fatal(err)
			}
		}
		c.qps = append(c.qps, q)
	}
	c.ready = slices.Clone(c.qps)
	return c
}

// drain sends until no queue pair may send any more.
func (c *crowd) drain() {
	c.Helper()
	for {
		if len(c.ready) == 0 {
			q := c.flow.Next(crowdTime)
			if q == nil {
				return
			}
			c.ready = append(c.ready, q.Owner.(*qp))
		}
		q := c.ready[0]
		c.ready = c.ready[1:]
		if !q.NextPackets(crowdTime, c.batch) {
			continue
		}
		c.ready = append(c.ready, q)
		c.sends++
		for i := range c.batch.Len() {
			c.total++
			c.note(q, c.batch.Packet(i))
		}
	}
}

func (c *crowd) note(q *qp, out ibta.OutPacket) {
	c.Helper()
	frame := slices.Clone(out.Head)
	for _, piece := range out.Payload {
		frame = append(frame, piece...)
		c.bytes[q] += len(piece)
	}
	var p ib.Packet
	if err := p.Decode(frame); err != nil {
		c.Fatal(err)
	}
	if p.Opcode.Info().Class == ib.ClassReadRequest {
		c.bytes[q] += int(p.RETH.DMALen)
	}
	p.DestQP, p.Payload = q.Num, nil
	c.last[q] = p
	if p.AckReq {
		c.asked = append(c.asked, p)
	}
}

// ack answers the oldest packet that asked.
func (c *crowd) ack() {
	c.Helper()
	c.ackAt(crowdTime)
}

func (c *crowd) ackAt(now clock.Time) {
	c.Helper()
	if len(c.asked) == 0 {
		c.Fatal("nothing was sent that asks for an acknowledgement")
	}
	p := c.asked[0]
	c.asked = c.asked[1:]
	q := c.host.qps[p.DestQP]
	ack := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(ib.OpAck), PKey: ib.DefaultPKey, DestQP: q.Num,
		PSN: p.PSN}}
	ack.AETH.Syndrome = ib.Acknowledge(ib.CreditsUnlimited)
	q.HandlePacket(now, &ack, arrival)
	c.ready = append(c.ready, q)
}

// timeout has q hear nothing for too long: the window closes, and q goes back.
func (c *crowd) timeout(q *qp) {
	if q.Deadline() == 0 {
		return // it has sent nothing
	}
	q.HandleTimeout(q.Deadline())
	delete(c.last, q)
	c.asked = slices.DeleteFunc(c.asked, func(p ib.Packet) bool { return p.DestQP == q.Num })
	c.ready = append(c.ready, q)
}

// crowds calls f for crowds and windows of several sizes.
func crowds(t *testing.T, f func(t *testing.T, n, window int)) {
	for _, n := range []int{1, 2, 3, 16, 64} {
		for _, window := range []int{64 << 10, 200 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%dx%d", n, window>>10), func(t *testing.T) { f(t, n, window) })
		}
	}
}

// A queue pair that waits because of others has requested an acknowledgement of all its packets;
// otherwise only its timeout would bring one.
func TestCrowdAsks(t *testing.T) {
	crowds(t, func(t *testing.T, n, window int) {
		c := newCrowd(t, n, window, 4, verbs.OpWrite)
		for i := range 200 {
			c.drain()
			if i == 20 {
				c.timeout(c.qps[0])
				c.drain()
			}
			waiting := make(map[verbs.QPN]bool)
			for _, p := range c.asked {
				waiting[p.DestQP] = true
			}
			for q, p := range c.last {
				if !p.AckReq && !waiting[q.Num] {
					t.Fatalf("queue pair %v stopped at PSN %v and waits for nothing", q.Num, p.PSN)
				}
			}
			if requests, _ := c.flow.InFlight(); i < 20 && requests > window+n*(4096+192) {
				t.Fatalf("%d bytes under way in a window of %d", requests, window)
			}
			if len(c.asked) == 0 {
				break // a lone queue pair has sent all
			}
			c.ack()
		}
	})
}

// All get the same share, in sends that are worth it.
func TestCrowdIsFair(t *testing.T) {
	crowds(t, func(t *testing.T, n, window int) {
		c := newCrowd(t, n, window, 16, verbs.OpWrite)
		for c.total < 200*n {
			c.drain()
			for range min(len(c.asked), 1+c.host.rand.IntN(6)) { // as a socket brings them
				c.ack()
			}
		}
		low, high := math.MaxInt, 0
		for _, q := range c.qps {
			low, high = min(low, c.bytes[q]), max(high, c.bytes[q])
		}
		if high-low > 256<<10 {
			t.Errorf("one queue pair sent %d bytes, another %d", low, high)
		}
		if worth := min(13, window/4/8000); c.total < worth*c.sends {
			t.Errorf("%d packets in %d sends", c.total, c.sends)
		}
	})
}

// A queue pair that ends gives others its room.
func TestCrowdMemberLeaves(t *testing.T) {
	c := newCrowd(t, 2, 64<<10, 4, verbs.OpRead)
	c.drain()
	first, second := c.qps[0], c.qps[1]
	if c.bytes[first] == 0 || c.bytes[second] != 0 {
		t.Fatalf("%d and %d bytes were asked for: want only the first to fit", c.bytes[first], c.bytes[second])
	}
	first.Destroy()
	if c.drain(); c.bytes[second] == 0 {
		t.Error("the second queue pair asks for nothing after the first has gone")
	}
}

// The window that a silent peer closed opens again with responses to READs.
func TestReadsOpenWindow(t *testing.T) {
	a, b := newHosts(t, 1<<20)
	q, peer := a.newRC(64), b.newRC(1)
	join(t, q, peer, verbs.MTU1024)
	local, err := a.pd.RegMR(make([]byte, crowdMessage), everything)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := b.pd.RegMR(make([]byte, crowdMessage), everything)
	if err != nil {
		t.Fatal(err)
	}
	now, longest := crowdTime, uint32(0)
	batch := ibta.NewBatch(limits(1 << 20))
	// exchange passes packets to and fro until there are none.
	exchange := func() {
		for from, to, idle := q, peer, 0; idle < 2; from, to, idle = to, from, idle+1 {
			for from.NextPackets(now, batch) {
				idle = 0
				for i := range batch.Len() {
					out := batch.Packet(i)
					frame := slices.Concat(out.Head, slices.Concat(out.Payload...), out.Tail)
					var p ib.Packet
					if err := p.Decode(frame[:len(frame)-4]); err != nil {
						t.Fatal(err)
					}
					if p.Opcode.Info().Class == ib.ClassReadRequest {
						longest = max(longest, p.RETH.DMALen)
					}
					to.HandlePacket(now, &p, arrival)
				}
			}
		}
	}
	post := func(n int) {
		t.Helper()
		read := verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{local.SGE(0, n)}, Remote: remote.Remote()}
		if _, err := q.PostSend([]verbs.SendWR{read}); err != nil {
			t.Fatal(err)
		}
	}
	post(64 << 10)
	for q.NextPackets(now, batch) { // lost
	}
	now = q.Deadline()
	q.HandleTimeout(now)
	for range 32 {
		post(64 << 10)
		exchange()
	}
	longest = 0
	post(crowdMessage)
	exchange()
	if longest < 128<<10 {
		t.Errorf("after 2 MiB of READs one request asks for %d bytes, want 128 KiB or more", longest)
	}
}

// Acknowledgements of many queue pairs leave in one send.
func TestAppendPackets(t *testing.T) {
	a, b := newHosts(t, 1<<20)
	batch := ibta.NewBatch(limits(1 << 20))
	const n = 16
	var qps []*qp
	for range n {
		q, peer := a.newRC(1), b.newRC(1)
		join(t, q, peer, verbs.MTU1024)
		write := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(ib.OpWriteOnly), PKey: ib.DefaultPKey, DestQP: q.Num,
			PSN: ib.PSN(q.Query().RQPSN), AckReq: true}}
		if r := q.HandlePacket(crowdTime, &write, arrival); r != ibta.Taken {
			t.Fatal(r)
		}
		qps = append(qps, q)
	}
	for _, q := range qps {
		if !q.AppendPackets(crowdTime, batch) || q.AppendPackets(crowdTime, batch) {
			t.Fatal("want one acknowledgement of each")
		}
	}
	if batch.Len() != n || batch.Full() {
		t.Errorf("%d packets in the batch, full: %v; want %d and false", batch.Len(), batch.Full(), n)
	}
	// Packets that are longer than the first packet of a send do not fit.
	mr, err := a.pd.RegMR(make([]byte, 64), everything)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := qps[0].PostSend([]verbs.SendWR{{Op: verbs.OpWrite, SGL: []verbs.SGE{mr.SGE(0, 64)}}}); err != nil {
		t.Fatal(err)
	}
	if qps[0].AppendPackets(crowdTime, batch) || !batch.Full() {
		t.Error("a long packet joined short ones")
	}
	if !qps[0].NextPackets(crowdTime, batch) {
		t.Error("a packet that did not fit is gone")
	}
}
