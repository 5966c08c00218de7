// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

var testTimes = SetupTimes{Link: 10, Reply: 100, Frame: 20, Answer: 200}

var testProposal = Proposal{CRC: true, IRD: 8, ORD: 8, ULPDU: MaxULPDU}

// carry hands the frames of one side to the other one, some bytes at a time.
func carry(now clock.Time, from, to *Handshake, piece int) (v Verdict) {
	for v == Continue && len(from.Output()) > 0 {
		n := copy(to.Into(), from.Output()[:min(piece, len(from.Output()))])
		from.Sent(n)
		v = to.Received(now, n)
	}
	return v
}

// TestHandshake has two sides agree, with frames in pieces of any lengths.
func TestHandshake(t *testing.T) {
	for piece := 1; piece < 64; piece++ {
		a, b := Dial(1, testProposal, []byte("hello"), testTimes), Await(1, testProposal, testTimes)
		if a.Deadline() != 11 || b.Deadline() != 21 {
			t.Fatalf("deadlines %d and %d", a.Deadline(), b.Deadline())
		}
		a.Limit(4, 2)
		a.Linked(5, 1460)
		if a.Stage() != StageReply || a.Deadline() != 105 {
			t.Fatalf("stage %d, deadline %d", a.Stage(), a.Deadline())
		}
		if v := carry(7, a, b, piece); v != Requested || b.Stage() != StageAnswer || b.Deadline() != 207 {
			t.Fatalf("verdict %d, stage %d, deadline %d", v, b.Stage(), b.Deadline())
		}
		if !bytes.Equal(b.Peer.Private, []byte("hello")) {
			t.Fatalf("private data %q", b.Peer.Private)
		}
		b.MatchPeer()
		if !b.Accept(1460, []byte("welcome")) {
			t.Fatal("no ready-to-receive message")
		}
		if v := carry(9, b, a, piece); v != Agreed || a.Stage() != StageOver || b.Stage() != StageOver {
			t.Fatalf("verdict %d, stages %d and %d", v, a.Stage(), b.Stage())
		}
		if !bytes.Equal(a.Peer.Private, []byte("welcome")) || a.Params.IRD != 4 || a.Params.ORD != 2 ||
			b.Params.IRD != 2 || b.Params.ORD != 4 {
			t.Fatalf("%q, %+v, %+v", a.Peer.Private, a.Params, b.Params)
		}
	}
}

// TestHandshakeRejected has the responder reject.
func TestHandshakeRejected(t *testing.T) {
	a, b := Dial(1, testProposal, nil, testTimes), Await(1, testProposal, testTimes)
	a.Linked(1, 1460)
	carry(1, a, b, 100)
	b.Reject([]byte("no"))
	if v := carry(1, b, a, 100); v != Rejected || string(a.Peer.Private) != "no" {
		t.Fatalf("verdict %d, %q", v, a.Peer.Private)
	}
}

// TestHandshakeUnusable has a responder that takes none of the initiator's ready-to-receive messages, and a responder
// that will have more READs in flight than the initiator answers (RFC 6581 section 9).
func TestHandshakeUnusable(t *testing.T) {
	for cause, e := range map[iwarp.Cause]iwarp.Enhanced{
		iwarp.MPANoRTR:           {PeerToPeer: true, RTRSend: true, IRD: 4, ORD: 4},
		iwarp.MPAInsufficientIRD: {PeerToPeer: true, RTRWrite: true, IRD: 4, ORD: 9},
	} {
		a := Dial(1, testProposal, nil, testTimes)
		a.Linked(1, 1460)
		a.Sent(len(a.Output()))
		f := iwarp.Frame{Kind: iwarp.Reply, Revision: 2, Flags: iwarp.FlagEnhanced | iwarp.FlagCRC,
			PrivateLen: iwarp.EnhancedLen}
		frame := e.Append(f.Append(nil))
		v := Continue
		for len(frame) > 0 {
			n := copy(a.Into(), frame)
			frame = frame[n:]
			v = a.Received(1, n)
		}
		if v != Unusable || a.Err == nil || a.Err.Error() != "set-up: "+cause.String() || len(a.Output()) == 0 {
			t.Errorf("%v: verdict %d, %v, %d bytes to send", cause, v, a.Err, len(a.Output()))
		}
	}
}

// TestHandshakeExpired has each stage last too long, of peers that are alive and of others.
func TestHandshakeExpired(t *testing.T) {
	dial := func() *Handshake { return Dial(1, testProposal, nil, testTimes) }
	await := func() *Handshake { return Await(1, testProposal, testTimes) }
	linked := func() *Handshake {
		h := dial()
		h.Linked(1, 1460)
		return h
	}
	asked := func() *Handshake {
		h := await()
		carry(1, linked(), h, 100)
		return h
	}
	for name, c := range map[string]struct {
		make  func() *Handshake
		alive bool
		over  bool
		next  clock.Time
	}{
		"link":           {make: dial, over: true},
		"link, alive":    {make: dial, alive: true, next: 70},
		"reply":          {make: linked, over: true},
		"reply, alive":   {make: linked, alive: true, next: 70},
		"request":        {make: await, over: true},
		"request, alive": {make: await, alive: true, next: 70},
		"answer":         {make: asked, over: true},
		"answer, alive":  {make: asked, alive: true, over: true}, // its own program is late
	} {
		h := c.make()
		if over := h.Expired(50, c.alive); over != c.over || h.Late == over || !over && h.Deadline() != c.next {
			t.Errorf("%s: %v, late %v, deadline %d", name, over, h.Late, h.Deadline())
		}
	}
}

// A side without a limit for the reply has the rest of the limit for the link.
func TestHandshakeWithoutReplyTime(t *testing.T) {
	h := Dial(1, testProposal, nil, SetupTimes{Link: 10, Frame: 20})
	if h.Linked(5, 1460); h.Deadline() != 11 {
		t.Errorf("deadline %d", h.Deadline())
	}
}

// FuzzHandshake has both sides read anything as the peer's frame, in pieces.
func FuzzHandshake(f *testing.F) {
	a := Dial(1, testProposal, []byte("hello"), testTimes)
	a.Linked(1, 1460)
	f.Add(a.Output(), uint8(3), false)
	b := Await(1, testProposal, testTimes)
	carry(1, a, b, 100)
	b.Accept(1460, nil)
	f.Add(b.Output(), uint8(100), true)
	f.Add([]byte{}, uint8(0), true)
	f.Add([]byte{1}, uint8(0), false)
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, dials bool) {
		h := Await(1, testProposal, testTimes)
		if dials {
			h = Dial(1, testProposal, nil, testTimes)
			h.Linked(1, 1460)
			h.Sent(len(h.Output()))
		}
		for len(data) > 0 {
			into := h.Into()
			if len(into) == 0 {
				t.Fatal("no room, and no verdict")
			}
			n := copy(into, data[:min(len(data), int(piece)+1)])
			data = data[n:]
			switch h.Received(1, n) {
			case Continue:
				continue
			case Requested:
				if h.MatchPeer(); dials {
					t.Fatal("a request for the initiator")
				}
				h.Accept(1460, nil)
				if len(h.Output()) == 0 {
					t.Fatal("no reply")
				}
			case Agreed, Rejected:
				if !dials {
					t.Fatal("a reply for the responder")
				}
			case Unusable:
				if h.Err == nil || len(h.Output()) == 0 {
					t.Fatal("no Terminate")
				}
			case Malformed:
				if h.Err == nil {
					t.Fatal("no reason")
				}
			}
			return
		}
	})
}
