// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

const answerOrder = "Op/AnswerOrder"

// testAnswerOrder has one queue for all completions of a side. A SEND completes before the receive that takes the
// peer's answer to it: programs use the SEND's buffer again when the answer is here.
func testAnswerOrder(t *T) {
	const rounds = 500
	if d := differenceOf(t.kind(), answerOrder); d != nil {
		t.Skip(d.Why)
	}
	da, db := t.devices()
	a, b := t.newEnd(da, setup{}), t.newEnd(db, setup{})
	for _, e := range []*end{a, b} {
		e.addQP(verbs.QPInit{RecvCQ: e.scq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1,
			MaxRecvSGE: 1}})
	}
	t.join(a, b, verbs.ConnectOptions{})
	b.recv(0, 0, 64)
	a.recv(0, 0, 64)
	for _, first := range []*end{a, b} {
		second := a
		if first == a {
			second = b
		}
		done := make(chan error, 1)
		go func() { done <- second.answer(rounds) }()
		for n := range rounds {
			first.post(verbs.SendWR{Op: verbs.OpSend, SGL: first.sgl(64, 32)})
			for _, want := range []verbs.WCOp{verbs.WCSend, verbs.WCRecv} {
				if wc := t.next(first.scq); wc.Status != verbs.StatusSuccess || wc.Op != want {
					t.Fatalf("round %d: %v completed with %v, want %v", n, wc.Op, wc.Status, want)
				}
			}
			first.recv(0, 0, 64)
		}
		t.ok(t.finish(done))
	}
}

// answer answers each SEND with one, and checks the order of its own completions.
func (e *end) answer(rounds int) error {
	var wc [1]verbs.WC
	for got := 0; got < rounds; {
		if _, err := e.scq.Wait(e.t.Context(), wc[:]); err != nil {
			return err
		}
		if wc[0].Op != verbs.WCRecv {
			continue
		}
		got++
		if err := e.qp.PostRecv(&verbs.RecvWR{SGL: e.sgl(0, 64)}); err != nil {
			return err
		}
		wr := verbs.SendWR{Op: verbs.OpSend, SGL: e.sgl(64, 32)}
		if got%8 == 0 { // one in half a queue's length
			wr.Flags = verbs.Signaled
		}
		if err := e.qp.PostSend(&wr); err != nil {
			return err
		}
	}
	return nil
}
