// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	largest = 4 << 20
	guard   = 64 // bytes after the largest message that nothing may touch
)

// sizes are the message lengths that every operation is tried with.
func sizes(mtu verbs.MTU) []int {
	m := mtu.Bytes()
	return []int{0, 1, m, m + 1, 64 << 10, largest}
}

// transfer moves n bytes from or to region a of the requester to or from region b of the
// responder with one work request, and says how.
type transfer struct {
	op    verbs.SendOp
	recvs bool       // consumes a receive at the responder
	imm   bool       //
	done  verbs.WCOp // the requester's completion
	recvd verbs.WCOp // the responder's, if recvs
	read  bool       // from the responder
}

var transfers = []transfer{
	{op: verbs.OpSend, recvs: true, done: verbs.WCSend, recvd: verbs.WCRecv},
	{op: verbs.OpSendImm, recvs: true, imm: true, done: verbs.WCSend, recvd: verbs.WCRecv},
	{op: verbs.OpWrite, done: verbs.WCWrite},
	{op: verbs.OpWriteImm, recvs: true, imm: true, done: verbs.WCWrite, recvd: verbs.WCRecvWriteImm},
	{op: verbs.OpRead, done: verbs.WCRead, read: true},
}

// run does the transfer once for each size, and verifies every byte.
func (x transfer) run(t *testing.T, p pair, typ verbs.QPType) {
	a, b := p.queues(typ, verbs.ConnectOptions{})
	ra := p.a.region(largest+guard, verbs.LocalWrite)
	for i, n := range sizes(p.mtu) {
		id, seed, imm := uint64(100+i), byte(37*i+5), 0xdead0000+uint32(i)
		rb := p.b.region(largest+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		from, to := ra, rb
		if x.read {
			from, to = rb, ra
		}
		from.fill(seed, 0, n)
		if x.recvs {
			var sgl []verbs.SGE
			if x.op != verbs.OpWriteImm {
				sgl = []verbs.SGE{rb.sge(0, n)}
			}
			b.recv(verbs.RecvWR{ID: id, SGL: sgl})
		}
		wr := verbs.SendWR{ID: id, Op: x.op, Flags: verbs.Signaled, Remote: rb.remote()}
		if n > 0 {
			wr.SGL = []verbs.SGE{ra.sge(0, n)}
		}
		if x.imm {
			wr.Imm = imm
		}
		a.send(work{SendWR: wr})
		want(t, completion(t, a, typ, rb.remote()), id, x.done)
		if x.recvs {
			wc := b.wait(1)[0]
			want(t, wc, id, x.recvd)
			if int(wc.ByteLen) != n {
				t.Errorf("%v of %d bytes: the receiver counts %d", x.op, n, wc.ByteLen)
			}
			if x.imm && (wc.Flags&verbs.WithImm == 0 || wc.Imm != imm) {
				t.Errorf("%v: immediate data %#x, want %#x", x.op, wc.Imm, imm)
			}
		} else if typ == verbs.UC {
			// Nothing tells the responder: a send behind it does.
			b.recv(verbs.RecvWR{ID: id})
			a.send(work{SendWR: verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled}})
			want(t, completion(t, a, typ, rb.remote()), id, verbs.WCSend)
			want(t, b.wait(1)[0], id, verbs.WCRecv)
		}
		if x.read {
			if i := to.differs(seed, 0, n); i >= 0 {
				t.Fatalf("%v of %d bytes: byte %d differs", x.op, n, i)
			}
		} else {
			wantPattern(t, to, seed, 0, n)
		}
	}
}

// stoppedAfter is how long rxe's UC requester may take for a message.
const stoppedAfter = 30 * time.Second

// completion waits for the completion of a's work request. A UC requester waits for nothing from its peer
// (IBTA 9.8.2), so if rxe's does not complete, rxe has stopped by itself. With more than 64 packets in the
// interface's queue it waits until most have left, and misses that if they leave while it is about to
// wait. UC has no timer that would wake it; the next work request does, here an empty WRITE.
func completion(t *testing.T, a queue, typ verbs.QPType, remote verbs.Remote) verbs.WC {
	t.Helper()
	if q, ok := a.(*guestQueue); ok && typ == verbs.UC {
		if wcs := q.poll(1, stoppedAfter); len(wcs) == 1 {
			return wcs[0]
		}
		t.Log("rxe has stopped in the middle of a UC message: the next work request wakes it")
		a.send(work{SendWR: verbs.SendWR{Op: verbs.OpWrite, Remote: remote}})
	}
	return a.wait(1)[0]
}

func TestRC(t *testing.T) {
	for _, x := range transfers {
		t.Run(x.op.String(), func(t *testing.T) {
			eachPair(t, func(t *testing.T, p pair) { x.run(t, p, verbs.RC) })
		})
	}
}

func TestUC(t *testing.T) {
	for _, x := range transfers {
		if x.read {
			continue
		}
		t.Run(x.op.String(), func(t *testing.T) {
			eachPair(t, func(t *testing.T, p pair) { x.run(t, p, verbs.UC) })
		})
	}
}

// TestRCAtomics works on one word of the responder and looks at it after each operation.
func TestRCAtomics(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, _ := p.queues(verbs.RC, verbs.ConnectOptions{})
		result := p.a.region(8, verbs.LocalWrite)
		word := p.b.region(64, verbs.LocalWrite|verbs.RemoteAtomic|verbs.RemoteWrite)
		const start = 0x0123456789abcdef
		word.set(8, binary.NativeEndian.AppendUint64(nil, start))
		for i, step := range []struct {
			op            verbs.SendOp
			done          verbs.WCOp
			compare       uint64
			operand       uint64
			before, after uint64
		}{
			{verbs.OpCompareSwap, verbs.WCCompareSwap, start, 77, start, 77},
			{verbs.OpCompareSwap, verbs.WCCompareSwap, start, 99, 77, 77}, // does not match: no swap
			{verbs.OpFetchAdd, verbs.WCFetchAdd, 0, 1 << 40, 77, 77 + 1<<40},
			{verbs.OpFetchAdd, verbs.WCFetchAdd, 0, ^uint64(0), 77 + 1<<40, 76 + 1<<40}, // wraps around
		} {
			w := work{SendWR: verbs.SendWR{ID: uint64(i), Op: step.op, Flags: verbs.Signaled,
				Remote: word.remote().At(8),
				SGL:    []verbs.SGE{result.sge(0, 8)}, Compare: step.compare}}
			if step.op == verbs.OpFetchAdd {
				w.Add = step.operand
			} else {
				w.Swap = step.operand
			}
			a.send(w)
			want(t, a.wait(1)[0], uint64(i), step.done)
			if got := binary.NativeEndian.Uint64(result.bytes(0, 8)); got != step.before {
				t.Errorf("step %d: %v returned %#x, want %#x", i, step.op, got, step.before)
			}
			if got := binary.NativeEndian.Uint64(word.bytes(8, 8)); got != step.after {
				t.Errorf("step %d: %v left %#x, want %#x", i, step.op, got, step.after)
			}
		}
	})
}

func TestRCAtomicWrite(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, _ := p.queues(verbs.RC, verbs.ConnectOptions{})
		word := p.b.region(64, verbs.LocalWrite|verbs.RemoteWrite)
		a.send(work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpAtomicWrite, Flags: verbs.Signaled,
			Remote: word.remote().At(16),
			Inline: pattern(3, 8)}})
		want(t, a.wait(1)[0], 1, verbs.WCAtomicWrite)
		wantPattern(t, word, 3, 16, 8)
	})
}

// TestRCFlush flushes a WRITE, once by range and once by region.
func TestRCFlush(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, _ := p.queues(verbs.RC, verbs.ConnectOptions{})
		from := p.a.region(8192+guard, verbs.LocalWrite)
		to := p.b.region(8192+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.FlushGlobal)
		for i, scope := range []verbs.FlushScope{verbs.FlushRange, verbs.FlushRegion} {
			seed := byte(11 + i)
			from.fill(seed, 0, 8192)
			a.send(
				work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{from.sge(0, 8192)},
					Remote: to.remote()}},
				work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpFlush, Flags: verbs.Signaled, Remote: to.remote(),
					FlushLen: 8192, FlushLevel: verbs.FlushToGlobal, FlushScope: scope}})
			want(t, a.wait(1)[0], 2, verbs.WCFlush)
			wantPattern(t, to, seed, 0, 8192)
		}
	})
}

// TestRCScatterGather sends 16 pieces of odd lengths that arrive in 15 others.
func TestRCScatterGather(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		const n = 16 * 501
		from, to := p.a.region(n+guard, verbs.LocalWrite), p.b.region(n+guard, verbs.LocalWrite)
		from.fill(9, 0, n)
		var gather, scatter []verbs.SGE
		for i := range 16 {
			gather = append(gather, from.sge(501*i, 501))
		}
		for off := 0; off < n; off += 535 {
			scatter = append(scatter, to.sge(off, min(535, n-off)))
		}
		b.recv(verbs.RecvWR{ID: 1, SGL: scatter})
		a.send(work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: gather}})
		want(t, a.wait(1)[0], 2, verbs.WCSend)
		want(t, b.wait(1)[0], 1, verbs.WCRecv)
		wantPattern(t, to, 9, 0, n)
	})
}

// TestRCInline sends and writes from memory that is not registered.
func TestRCInline(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		to := p.b.region(200+guard, verbs.LocalWrite|verbs.RemoteWrite)
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{to.sge(0, 100)}})
		a.send(
			work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: pattern(1, 100)}},
			work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: pattern(2, 100),
				Remote: to.remote().At(100)}})
		wcs := a.wait(2)
		want(t, wcs[0], 2, verbs.WCSend)
		want(t, wcs[1], 3, verbs.WCWrite)
		want(t, b.wait(1)[0], 1, verbs.WCRecv)
		if at := to.differs(1, 0, 100); at >= 0 {
			t.Errorf("SEND: byte %d differs", at)
		}
		wantPattern(t, to, 2, 100, 100)
	})
}

// TestRCFence reads the peer's memory in pieces and sends them back behind a fence.
func TestRCFence(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{RdAtomic: 4})
		const piece, pieces = 10_000, 12
		mine := p.a.region(piece*pieces, verbs.LocalWrite)
		theirs := p.b.region(piece*pieces, verbs.LocalWrite|verbs.RemoteRead)
		echo := p.b.region(piece*pieces+guard, verbs.LocalWrite)
		theirs.fill(21, 0, piece*pieces)
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{echo.sge(0, piece*pieces)}})
		var list []work
		for i := range pieces {
			list = append(list, work{SendWR: verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{mine.sge(i*piece, piece)},
				Remote: theirs.remote().At(uint64(i * piece))}})
		}
		list = append(list, work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Fence,
			SGL: []verbs.SGE{mine.sge(0, piece*pieces)}}})
		a.send(list...)
		want(t, a.wait(1)[0], 2, verbs.WCSend)
		want(t, b.wait(1)[0], 1, verbs.WCRecv)
		wantPattern(t, echo, 21, 0, piece*pieces)
	})
}

// TestSRQ has two queue pairs draw from one shared receive queue.
func TestSRQ(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		srq := p.b.sharedQueue()
		from := p.a.region(8*5000, verbs.LocalWrite)
		to := p.b.region(8*5000, verbs.LocalWrite)
		for i := range 8 {
			srq.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{to.sge(i*5000, 5000)}})
		}
		type connection struct{ a, b queue }
		var conns []connection
		for range 2 {
			c := connection{p.a.queue(queueInit{typ: verbs.RC}), p.b.queue(queueInit{typ: verbs.RC, srq: srq})}
			p.connect(c.a, c.b, verbs.ConnectOptions{})
			conns = append(conns, c)
		}
		for i := range 8 { // in turn: receives are taken in the order of posting
			from.fill(byte(i), i*5000, 5000)
			c := conns[i%2]
			c.a.send(work{SendWR: verbs.SendWR{ID: 50, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{from.sge(i*5000, 5000)}}})
			want(t, c.a.wait(1)[0], 50, verbs.WCSend)
			want(t, c.b.wait(1)[0], uint64(i), verbs.WCRecv)
			if at := to.differs(byte(i), i*5000, 5000); at >= 0 {
				t.Fatalf("message %d: byte %d differs", i, at)
			}
		}
	})
}
