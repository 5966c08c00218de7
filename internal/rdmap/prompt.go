// SPDX-License-Identifier: Apache-2.0

package rdmap

// The first words of a stream can get lost in peers. Linux siw sends its MPA reply, and only
// then installs what hears of received data: what came before that lies there until more
// comes, be it the ready-to-receive message that its connection manager waits for. As an
// initiator it gives the connection up if data arrive together with the reply. So whoever
// runs the engine calls Prompt a few times as long as the peer is Quiet.

// Quiet says whether the peer has sent nothing since the stream began.
func (q *QP) Quiet() bool { return q.up && !q.rx.began && q.term == nil && !q.fin }

// Prompt has a quiet peer look again: an RDMA WRITE of no bytes, which names no memory and
// does nothing, follows what was sent. A responder that held back has been patient enough.
func (q *QP) Prompt() {
	t := &q.tx
	switch {
	case t.await:
		t.await = q.AwaitReady
	case t.queued > 0 && !t.midway && !t.answering:
		t.ready = ReadyWrite
	}
}
