// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// Stage is how far the set-up of a stream has come.
type Stage uint8

const (
	StageLink    Stage = iota // the link is being established
	StageReply                // the request is being sent, or unanswered
	StageRequest              // the peer's request has not come
	StageAnswer               // the request waits for the program's answer
	StageOver                 // both sides have sent all their frames
)

// Verdict is the consequence of a call of [Handshake].
type Verdict uint8

const (
	Continue  Verdict = iota // nothing yet
	Requested                // the peer's request is there: Accept or Reject
	Agreed                   // on Params: begin the stream
	Rejected                 // the peer rejects; Peer has its private data
	Unusable                 // the reply is of no use: send Output, which says so, and end the stream; Err says why
	Malformed                // the peer speaks another protocol; Err says so
)

// SetupTimes limit how long a side waits.
type SetupTimes struct {
	Link   clock.Time // for the link
	Reply  clock.Time // for the peer's reply, once the link is there; 0: for as long as Link leaves
	Frame  clock.Time // for the peer's request, and each time that it gets more
	Answer clock.Time // for the program's answer
}

// Handshake is one side of the set-up of a stream: MPA's request and its reply (RFC 5044 section 7.1, with the
// enhanced frames of RFC 6581). [Dial] and [Await] begin it.
type Handshake struct {
	Proposal Proposal // of this side
	Peer     Setup    // the peer's frame
	Params   Params   // the result
	Err      error    // why there is none
	Late     bool     // the set-up has taken long, and the peer lives

	stage    Stage
	times    SetupTimes
	deadline clock.Time
	private  []byte // of our request
	out      []byte // that is left to send
}

// Dial begins the set-up of a stream whose link is being established, with the private data of its request.
func Dial(now clock.Time, p Proposal, private []byte, times SetupTimes) *Handshake {
	return &Handshake{Proposal: p, private: private, times: times, deadline: now + times.Link}
}

// Await begins the set-up of a stream whose link a peer has established.
func Await(now clock.Time, p Proposal, times SetupTimes) *Handshake {
	return &Handshake{Proposal: p, times: times, deadline: now + times.Frame, stage: StageRequest}
}

// Stage returns how far the set-up has come.
func (h *Handshake) Stage() Stage { return h.stage }

// Deadline returns when Expired is due.
func (h *Handshake) Deadline() clock.Time { return h.deadline }

// Limit limits the READs and atomics that this side answers at once, and that it has in flight.
func (h *Handshake) Limit(ird, ord uint16) {
	h.Proposal.IRD, h.Proposal.ORD = min(h.Proposal.IRD, ird), min(h.Proposal.ORD, ord)
}

// MatchPeer has this side answer no more READs at once than the peer has said that it will have in flight.
func (h *Handshake) MatchPeer() {
	if h.Peer.Enhanced() {
		h.Proposal.IRD = min(h.Proposal.IRD, h.Peer.Depths.ORD)
	}
}

// Linked reports that the link is established. mss is the number of bytes of its segments. The request is in Output.
func (h *Handshake) Linked(now clock.Time, mss int) {
	h.stage = StageReply
	if h.times.Reply != 0 {
		h.deadline = now + h.times.Reply
	}
	h.Proposal.MSS = mss
	h.out = AppendRequest(nil, &h.Proposal, h.private)
}

// Output returns the bytes to be sent next. Sent reports that n bytes of it have left.
func (h *Handshake) Output() []byte { return h.out }

// Sent reports that n bytes of Output have left.
func (h *Handshake) Sent(n int) { h.out = h.out[n:] }

// Into returns where the next bytes of the peer's frame go.
func (h *Handshake) Into() []byte { return h.Peer.Into() }

// Received handles n bytes of the peer's frame.
func (h *Handshake) Received(now clock.Time, n int) Verdict {
	want := iwarp.Request
	if h.stage == StageReply {
		want = iwarp.Reply
	}
	switch done, ok := h.Peer.Received(n, want); {
	case !ok:
		h.Err = errors.New("what the peer sends is no MPA frame: it does not speak iWARP there")
		return Malformed
	case !done:
		return Continue
	case h.stage == StageReply:
		return h.replied()
	}
	h.stage, h.deadline = StageAnswer, now+h.times.Answer
	return Requested
}

// replied handles the peer's reply.
func (h *Handshake) replied() Verdict {
	h.stage = StageOver
	if h.Peer.Rejected() {
		return Rejected
	}
	var cause iwarp.Cause
	if h.Params, cause = h.Peer.Replied(&h.Proposal); cause == 0 {
		return Agreed
	}
	h.out, h.Err = AppendTerminate(nil, &h.Params, cause), errors.New("set-up: "+cause.String())
	return Unusable
}

// Accept accepts the peer's request. The reply is in Output. It returns false if there is no ready-to-receive message
// that both sides know; then the reply is a rejection.
func (h *Handshake) Accept(mss int, private []byte) (ok bool) {
	h.stage, h.Proposal.MSS = StageOver, mss
	h.out, h.Params, ok = h.Peer.Accept(nil, &h.Proposal, private)
	return ok
}

// Reject rejects the peer's request. The reply is in Output.
func (h *Handshake) Reject(private []byte) {
	h.stage = StageOver
	h.out = h.Peer.Reject(nil, private)
}

// Expired handles that the deadline has come, and reports whether the set-up has failed. alive says that the peer is
// there and was not able to do its part yet: it gets more time, but not the program for its answer.
func (h *Handshake) Expired(now clock.Time, alive bool) bool {
	if alive && h.stage < StageAnswer {
		h.Late, h.deadline = true, now+h.times.Frame
		return false
	}
	return true
}
