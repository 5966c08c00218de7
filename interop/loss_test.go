// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestLoss sends, writes and reads while 2% of the packets get lost and others overtake
// each other, both ways. Every message must arrive, once, in order and whole.
func TestLoss(t *testing.T) {
	eachLinkedPair(t, func(t *testing.T, p pair) {
		g := dialGuest(t, false)
		for _, direction := range []string{"out", "in"} {
			g.netem(direction, "limit", "10000", "loss", "2%", "delay", "1ms", "reorder", "5%")
		}
		const size, messages = 50_000, 30
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		from := p.a.region(size*messages, verbs.LocalWrite)
		sent := p.b.region(size*messages+guard, verbs.LocalWrite)
		written := p.b.region(size*messages+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		read := p.a.region(size*messages+guard, verbs.LocalWrite)
		from.fill(77, 0, size*messages)
		for i := range messages {
			b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{sent.sge(i*size, size)}})
		}
		var list []work
		for i := range messages {
			off, id := i*size, uint64(3*i)
			remote := written.remote().At(uint64(off))
			list = append(list,
				work{SendWR: verbs.SendWR{ID: id, Op: verbs.Send, Flags: verbs.Signaled, SGL: []verbs.SGE{from.sge(off, size)}}},
				work{SendWR: verbs.SendWR{ID: id + 1, Op: verbs.Write, Flags: verbs.Signaled, SGL: []verbs.SGE{from.sge(off, size)}, Remote: remote}},
				work{SendWR: verbs.SendWR{ID: id + 2, Op: verbs.Read, Flags: verbs.Signaled, SGL: []verbs.SGE{read.sge(off, size)}, Remote: remote}})
		}
		a.send(list...)
		for i, wc := range a.wait(len(list)) {
			want(t, wc, uint64(i), []verbs.WCOp{verbs.WCSend, verbs.WCWrite, verbs.WCRead}[i%3])
		}
		for i, wc := range b.wait(messages) {
			want(t, wc, uint64(i), verbs.WCRecv)
		}
		for _, r := range []region{sent, written, read} {
			wantPattern(t, r, 77, 0, size*messages)
		}
		for _, direction := range []string{"out", "in"} {
			if _, dropped := g.netemStats(direction); dropped == 0 {
				t.Errorf("netem dropped no packet %s", direction)
			}
		}
	})
}
