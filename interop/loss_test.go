// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestLoss sends, writes and reads while 2% of the packets get lost and others overtake
// each other, both ways. Every message must arrive, once, in order and whole.
//
// Where rxe is the requester, it must not get responses in another order than they were
// sent in (TestKernelLateAck), and it begins to read when all its SENDs and WRITEs have
// completed: where a response to a READ gets lost and a SEND from before it, sent twice, is
// acknowledged behind that, it goes to ERR without an error, as in TestKernelLateAck. It
// fails by itself now and then all the same, and is excused where a capture of the link
// proves that: it gave its requests other PSNs (TestKernelRenumbers), or went to ERR without
// an error though every packet that it got was right.
func TestLoss(t *testing.T) {
	eachLinkedPair(t, func(t *testing.T, p pair) {
		g := dialGuest(t, false)
		for _, direction := range []string{"out", "in"} {
			options := []string{"limit", "10000", "loss", "2%", "delay", "1ms"}
			if direction == "out" || !isKernel(p.a) {
				options = append(options, "reorder", "5%")
			}
			g.netem(direction, options...)
		}
		p.endures(t)
		for _, direction := range []string{"out", "in"} {
			if _, dropped := g.netemStats(direction); dropped == 0 {
				t.Errorf("netem dropped no packet %s", direction)
			}
		}
	})
}

// TestReordering is TestLoss with a quarter of the packets overtaking the others and none lost: Ramjet keeps
// early packets, and rxe asks for all of them again.
func TestReordering(t *testing.T) {
	eachLinkedPair(t, func(t *testing.T, p pair) {
		g := dialGuest(t, false)
		for _, direction := range []string{"out", "in"} {
			options := []string{"limit", "10000", "delay", "1ms"}
			if direction == "out" || !isKernel(p.a) {
				options = append(options, "reorder", "25%")
			}
			g.netem(direction, options...)
		}
		p.endures(t)
		for _, s := range []side{p.a, p.b} {
			if d, ok := s.(*device); ok && d.counter("early_pkts") == 0 {
				t.Error("no packet came out of order")
			}
		}
	})
}

// endures runs lossy until it succeeds, for as long as rxe is excused.
func (p pair) endures(t *testing.T) {
	t.Helper()
	// Each excuse is proven by its capture; the bound is for the time that this takes.
	const most = 9
	for excuses := 0; ; excuses++ {
		run := p.lossy(t)
		if run.err == nil {
			t.Logf("rxe was excused %d times", excuses)
			return
		}
		why, excused := run.excuse()
		if !excused || excuses == most {
			t.Fatalf("%v; rxe is not excused: %s", run.err, why)
		}
		t.Logf("%v; rxe is excused: %s", run.err, why)
	}
}

// lossyRun is one try of TestLoss or TestReordering.
type lossyRun struct {
	link
	watch  *linkWatch
	kernel bool // the requester is rxe
	silent bool // it is in ERR although no completion has an error
	guest  verbs.QPN
	ramjet verbs.QPN
	remote verbs.Remote // of the memory that is read, which has the pattern
	err    error        // the failure
}

const (
	lossySize     = 50_000
	lossyMessages = 20
	lossySeed     = 77
)

// excuse says which side made a run fail, by the packets that passed the link: rxe if that is
// proven.
func (r *lossyRun) excuse() (why string, excused bool) {
	if !r.kernel {
		return "it only responds", false
	}
	list, err := r.watch.packets()
	if err != nil {
		return "the capture has not all: " + err.Error(), false
	}
	if renumbered(list, r.ramjet) {
		return "it sent two requests with one PSN", true
	}
	if !r.silent {
		return "its requests are as they should be, and it has an error", false
	}
	data := pattern(lossySeed, lossySize*lossyMessages)
	ramjet := &responder{guest: r.guest, ramjet: r.ramjet, mtu: r.mtu.Bytes(),
		memory: func(addr uint64, n int) []byte {
			if off := addr - r.remote.Addr; off+uint64(n) <= uint64(len(data)) {
				return data[off:][:n]
			}
			return nil
		}}
	if err := ramjet.wrong(list); err != nil {
		return "it had a reason: " + err.Error(), false
	}
	return fmt.Sprintf("it went to ERR without an error, and all of %d packets on the link are right", len(list)), true
}

// lossy sends, writes and reads 20 messages.
func (p pair) lossy(t *testing.T) *lossyRun {
	const size, messages = lossySize, lossyMessages
	r := &lossyRun{link: p.link, watch: p.watch(t), kernel: isKernel(p.a)}
	a, b := p.queues(verbs.RC, verbs.ConnectOptions{Timeout: 15}) // rxe waits that long for packets lost at the end
	from := p.a.region(size*messages, verbs.LocalWrite)
	sent := p.b.region(size*messages+guard, verbs.LocalWrite)
	written := p.b.region(size*messages+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	read := p.a.region(size*messages+guard, verbs.LocalWrite)
	from.fill(lossySeed, 0, size*messages)
	r.guest, r.ramjet, r.remote = a.endpoint().QPN, b.endpoint().QPN, written.remote()
	for i := range messages {
		b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{sent.sge(i*size, size)}})
	}
	var list []work
	for i := range messages {
		off, id := i*size, uint64(3*i)
		remote := written.remote().At(uint64(off))
		list = append(list,
			work{SendWR: verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{from.sge(off, size)}}},
			work{SendWR: verbs.SendWR{ID: id + 1, Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{from.sge(off, size)}, Remote: remote}},
			work{SendWR: verbs.SendWR{ID: id + 2, Op: verbs.OpRead, Flags: verbs.Signaled,
				SGL: []verbs.SGE{read.sge(off, size)}, Remote: remote}})
	}
	rounds := [][]work{list}
	if r.kernel {
		rounds = roundsOfRxe(list)
	}
	var posted []work
	var wcs []verbs.WC
	for _, round := range rounds {
		if slices.ContainsFunc(wcs, func(wc verbs.WC) bool { return wc.Status != verbs.StatusSuccess }) {
			break
		}
		a.send(round...)
		posted, wcs = append(posted, round...), append(wcs, a.wait(len(round))...)
	}
	r.silent = a.state() == verbs.StateError && !slices.ContainsFunc(wcs, func(wc verbs.WC) bool {
		return wc.Status != verbs.StatusSuccess && wc.Status != verbs.StatusWRFlushError
	})
	r.err = lossyOutcome(posted, wcs, b, map[string]region{"sent": sent, "written": written, "read": read})
	return r
}

// roundsOfRxe returns the work requests that rxe carries out one after the other: its READs
// do not begin before all else has completed.
func roundsOfRxe(list []work) [][]work {
	var reads, others []work
	for _, w := range list {
		if w.Op == verbs.OpRead {
			reads = append(reads, w)
		} else {
			others = append(others, w)
		}
	}
	return [][]work{others, reads}
}

// lossyOutcome returns the failures.
func lossyOutcome(posted []work, wcs []verbs.WC, b queue, regions map[string]region) error {
	const size, messages = lossySize, lossyMessages
	ops := map[verbs.SendOp]verbs.WCOp{verbs.OpSend: verbs.WCSend, verbs.OpWrite: verbs.WCWrite,
		verbs.OpRead: verbs.WCRead}
	for i, w := range posted {
		if wc := wcs[i]; wc.ID != w.ID || wc.Status != verbs.StatusSuccess || wc.Op != ops[w.Op] {
			return fmt.Errorf("completion %d %v: %v, want %d %v: success", wc.ID, wc.Op, wc.Status, w.ID, ops[w.Op])
		}
	}
	for i, wc := range b.wait(messages) {
		if wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess || wc.ByteLen != size {
			return fmt.Errorf("receive %d of %d bytes: %v, want %d of %d: success", wc.ID, wc.ByteLen, wc.Status, i,
				size)
		}
	}
	for name, r := range regions {
		if i := r.differs(lossySeed, 0, size*messages); i >= 0 {
			return fmt.Errorf("byte %d of what was %s differs", i, name)
		}
		if i := slices.IndexFunc(r.bytes(size*messages, guard), func(b byte) bool { return b != 0 }); i >= 0 {
			return fmt.Errorf("byte %d after what was %s was written", i, name)
		}
	}
	return nil
}
