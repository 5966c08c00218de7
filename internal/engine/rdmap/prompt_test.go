// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// arriveAll gives the queue pair all of b.
func (h *host) arriveAll(b []byte) {
	h.t.Helper()
	for len(b) > 0 {
		n := h.arrive(b)
		if n == 0 {
			h.t.Fatalf("%d bytes are not taken", len(b))
		}
		b = b[n:]
	}
}

// TestPrompt has an initiator repeat its ready-to-receive message until the peer has said
// something, and never in the middle of a message.
func TestPrompt(t *testing.T) {
	a, b := pair(t, 1<<20, Params{ULPDU: 1000})
	a.transmit()
	ready := len(a.wire)
	if ready == 0 || !a.qp.Quiet() || !b.qp.Quiet() {
		t.Fatalf("%d bytes, quiet %v %v", ready, a.qp.Quiet(), b.qp.Quiet())
	}
	a.qp.Prompt()
	if a.transmit(); len(a.wire) != 2*ready {
		t.Errorf("%d bytes after a prompt, want %d", len(a.wire), 2*ready)
	}
	b.recv(1, b.sge(0, 1<<20))
	a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 1<<20)}})
	a.batch.Reset()
	a.qp.NextFPDUs(a.batch) // full before the message is whole
	a.wire = append(a.wire, a.batch.Bytes()...)
	a.qp.Sent(a.batch.Len())
	a.qp.Prompt()
	a.transmit()
	b.arriveAll(a.wire)
	if b.qp.State() == verbs.StateError || b.qp.Quiet() {
		t.Fatalf("the peer is in state %v", b.qp.State())
	}
	b.drain()
	b.next(verbs.StatusSuccess)
	b.post(verbs.SendWR{ID: 2, Op: verbs.OpWrite})
	b.transmit()
	a.arriveAll(b.wire)
	if a.qp.Quiet() {
		t.Error("the peer has spoken, and counts as quiet")
	}
}

// TestPause has a responder hold back its messages until the initiator's first one, or until it
// has waited long enough.
func TestPause(t *testing.T) {
	for _, prompted := range []bool{false, true} {
		a, b := newHost(t, 1, 4096), newHost(t, 2, 4096)
		if !a.qp.Begin(Params{ULPDU: MaxULPDU, IRD: 1, ORD: 1}) ||
			!b.qp.Begin(Params{ULPDU: MaxULPDU, IRD: 1, ORD: 1, Pause: true}) {
			t.Fatal("a stream cannot begin")
		}
		b.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{b.sge(0, 64)}, Remote: a.at(0)})
		if b.transmit() {
			t.Error("the responder speaks at once")
		}
		if prompted {
			b.qp.Prompt()
		} else {
			a.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite})
			a.transmit()
			b.arriveAll(a.wire)
		}
		if !b.transmit() {
			t.Errorf("the responder never speaks, prompted %v", prompted)
		}
	}
}

// TestAwaitReady has no prompt end the wait for a ready-to-receive message.
func TestAwaitReady(t *testing.T) {
	_, b := pair(t, 4096, Params{})
	b.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite})
	b.qp.Prompt()
	if b.transmit() {
		t.Error("the responder speaks before the initiator is ready")
	}
}

// TestAnswersInTurn has both messages to send and READs to answer: they alternate, so that neither waits for all of
// the other.
func TestAnswersInTurn(t *testing.T) {
	a, b := pair(t, 1<<16, Params{ULPDU: 1000})
	run(a, b, whole)
	const n = 5
	for range n {
		b.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{b.sge(0, 8)}, Remote: a.at(0)})
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.at(0)})
	}
	b.transmit()
	a.arriveAll(b.wire)
	a.transmit()
	var h iwarp.Header
	answers, messages := 0, 0
	for rest := a.wire; len(rest) > 0; rest = rest[iwarp.FPDULen(int(binary.BigEndian.Uint16(rest))):] {
		if h.Decode(rest[iwarp.LengthLen:]); h.Opcode == iwarp.OpReadResponse {
			answers++
		} else {
			messages++
		}
		if d := answers - messages; d < -1 || d > 1 {
			t.Fatalf("%d answers and %d messages have been sent", answers, messages)
		}
	}
	if answers != n || messages != n {
		t.Errorf("%d answers and %d messages, want %d of each", answers, messages, n)
	}
}
