// SPDX-License-Identifier: Apache-2.0

package rdmap

// The first messages of a stream can get stuck in peers. Linux siw sends its MPA reply, and only
// then installs the callback for received data. Data that arrived before stays there until more
// arrives, even the ready-to-receive message that its connection manager waits for. As an initiator
// it drops the connection if data arrives together with the reply. So the engine's caller calls
// Prompt a few times while the peer is Quiet.

// Quiet reports whether the peer has sent nothing since the stream began.
func (q *QP) Quiet() bool { return q.up && !q.rx.began && q.terminateMsg == nil && !q.closing }

// Prompt makes a quiet peer look at its socket again: it sends an RDMA WRITE of no bytes, which
// names no memory and does nothing. A responder that held back may send from then on.
func (q *QP) Prompt() {
	t := &q.tx
	switch {
	case t.await:
		t.await = q.AwaitRTR
	case t.queued > 0 && !t.inMessage && !t.answering:
		t.rtr = RTRWrite
	}
}
