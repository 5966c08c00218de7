// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"math"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// TestEndInMessage has a peer end its stream between messages, which just flushes, and in the middle of
// an FPDU or of a message, which it cannot have meant.
func TestEndInMessage(t *testing.T) {
	for name, c := range map[string]struct {
		bytes func(sent int) int // of them arrive before the end
		want  verbs.Status
	}{
		"after the message": {func(sent int) int { return sent }, verbs.StatusWRFlushError},
		"in an FPDU":        {func(sent int) int { return sent - 1 }, verbs.StatusRetryExceeded},
		"between FPDUs":     {func(sent int) int { return iwarp.FPDULen(1000) }, verbs.StatusRetryExceeded},
	} {
		a, b := pair(t, 1<<16, Params{CRC: true, ULPDU: 1000})
		run(a, b, whole)
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 3000)}, Remote: b.at(0)})
		a.transmit()
		b.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{b.sge(0, 8)}, Remote: a.at(0)})
		b.transmit()
		b.arriveAll(a.wire[:c.bytes(len(a.wire))])
		b.qp.Lost(true)
		b.drain()
		if wc := b.next(c.want); wc.Op != verbs.WCRead {
			t.Errorf("%s: %v", name, wc.Op)
		}
	}
}

// TestLyingResponse has a peer answer a READ and an atomic with another response: the work request has the
// reason, the work requests before it and behind it are flushed.
func TestLyingResponse(t *testing.T) {
	for name, c := range map[string]struct {
		op  verbs.SendOp
		lie func(b *host, q *response)
	}{
		"steering tag": {verbs.OpRead, func(_ *host, r *response) { r.stag++ }},
		"offset":       {verbs.OpRead, func(_ *host, r *response) { r.to++ }},
		"too long": {verbs.OpRead, func(b *host,
			r *response) {
			r.span, _ = b.dev.Memory.RemoteWhole(1, b.qp.Num, b.region.Key(), 0)
		}},
		"too short": {verbs.OpRead, func(_ *host, r *response) { r.span = r.span.Sub(0, 4) }},
		"atomic id": {verbs.OpFetchAdd, func(_ *host, r *response) { r.id++ }},
	} {
		a, b := pair(t, 1<<12, Params{CRC: true})
		run(a, b, whole)
		a.post(verbs.SendWR{ID: 1, Op: c.op, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.at(0)})
		a.post(verbs.SendWR{ID: 2, Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(8, 8)}, Remote: b.at(8)})
		a.transmit()
		b.arriveAll(a.wire)
		a.wire = nil
		c.lie(b, b.qp.tx.resp.Front())
		b.transmit()
		a.arrive(b.wire)
		a.drain()
		if wc := a.next(verbs.StatusBadResponseError); wc.ID != 1 {
			t.Errorf("%s: work request %d", name, wc.ID)
		}
		if wc := a.next(verbs.StatusWRFlushError); wc.ID != 2 {
			t.Errorf("%s: work request %d", name, wc.ID)
		}
		if a.qp.State() != verbs.StateError || !a.transmit() {
			t.Errorf("%s: state %v, and a Terminate that was not sent", name, a.qp.State())
		}
	}
}

// TestRefusedRead has the second of three READs or atomics refused: that one has the status, not the first, whose
// answer goes with the stream.
func TestRefusedRead(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.OpRead, verbs.OpFetchAdd} {
		a, b := pair(t, 1<<12, Params{CRC: true})
		run(a, b, whole)
		bad := b.at(0)
		bad.Key ^= 0x100
		for i, remote := range []verbs.Remote{b.at(0), bad, b.at(0)} {
			a.post(verbs.SendWR{ID: uint64(i), Op: op, SGL: []verbs.SGE{a.sge(8*i, 8)}, Remote: remote})
		}
		a.transmit()
		b.arriveAll(a.wire)
		a.wire = nil
		b.transmit()
		a.arrive(b.wire)
		a.drain()
		for i, want := range []verbs.Status{verbs.StatusWRFlushError, verbs.StatusRemoteAccessError,
			verbs.StatusWRFlushError} {
			if wc := a.next(want); wc.ID != uint64(i) {
				t.Errorf("%v: completion of %d, want %d", op, wc.ID, i)
			}
		}
	}
}

// TestRefusedReadUnknown has a Terminate name a READ that was not requested: the oldest work request fails.
func TestRefusedReadUnknown(t *testing.T) {
	for _, msn := range []uint32{0, 3, math.MaxUint32} {
		a, b := pair(t, 1<<12, Params{CRC: true})
		run(a, b, whole)
		for i := range 2 {
			a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(8*i, 8)}, Remote: b.at(0)})
		}
		a.transmit()
		h := iwarp.Header{DDP: iwarp.DDPVersion, RDMAP: iwarp.RDMAPVersion, Last: true, Opcode: iwarp.OpReadRequest,
			Queue: iwarp.QueueReadRequest, MSN: msn}
		b.qp.terminateMsg = terminateOf(iwarp.ProtectionSTag, h.Append(nil), nil, 0)
		b.transmit()
		a.arrive(b.wire)
		a.drain()
		if wc := a.next(verbs.StatusRemoteAccessError); wc.ID != 0 {
			t.Errorf("number %d: completion of %d", msn, wc.ID)
		}
		a.next(verbs.StatusWRFlushError)
	}
}

// A SEND whose offset leaves 32 bits is too long for any receive, also for one whose entries overlap and
// have more bytes together.
func TestSendOfMuch(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("no list is so long here")
	}
	a, b := pair(t, 1<<12, Params{CRC: true})
	run(a, b, whole)
	const entries, each = 40, 1 << 27 // an entry of 2 GiB would take that much memory, as Go clears it
	b.qp.Recv.MaxSGE = entries
	large, err := b.dev.Memory.Register(1, make([]byte, each), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	b.recv(1, slices.Repeat([]verbs.SGE{{Addr: large.Addr(), Length: each, LKey: large.Key()}}, entries)...)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 100)}})
	a.transmit()
	r := &b.qp.rx
	if !b.qp.takeReceive(nil, 0) || !b.qp.Scatter(&r.land) {
		t.Fatal("the receive is none")
	}
	r.inMessage, r.op, r.mo = true, iwarp.OpSend, math.MaxUint32-99
	h := iwarp.Header{Last: true, Opcode: iwarp.OpSend, MSN: r.sendMSN, MO: r.mo}
	if b.qp.findReceive(&h, nil, 100) || b.qp.terminateMsg == nil || b.qp.terminateMsg.Cause != iwarp.UntaggedTooLong {
		t.Errorf("terminated with %v", b.qp.terminateMsg)
	}
	b.drain()
	b.next(verbs.StatusLocalLengthError)
}

// Nor has a WRITE more bytes than 32 bits count: the length that immediate data tell would be a lie.
func TestWriteWithoutEnd(t *testing.T) {
	for end, want := range map[uint32]verbs.QPState{math.MaxUint32 - 100: verbs.StateRTS,
		math.MaxUint32 - 99: verbs.StateError} {
		a, b := pair(t, 1<<12, Params{CRC: true})
		run(a, b, whole)
		b.recv(1)
		a.post(verbs.SendWR{Op: verbs.OpWriteImm, SGL: []verbs.SGE{a.sge(0, 100)}, Remote: b.at(0)})
		a.transmit()
		r := &b.qp.rx
		r.inMessage, r.op, r.written = true, iwarp.OpWrite, end
		b.arrive(a.wire)
		b.drain()
		if b.qp.State() != want {
			t.Fatalf("with %d bytes before it: state %v, want %v", end, b.qp.State(), want)
		}
		if want == verbs.StateRTS {
			if wc := b.next(verbs.StatusSuccess); wc.ByteLen != math.MaxUint32 {
				t.Errorf("%d bytes were written, it says", wc.ByteLen)
			}
		} else if b.qp.terminateMsg.Cause != iwarp.OperationUnspecified {
			t.Errorf("terminated with %v", b.qp.terminateMsg.Cause)
		}
	}
}
