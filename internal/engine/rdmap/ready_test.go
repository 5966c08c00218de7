// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// negotiate has a responder answer an initiator whose request has the parameters of e.
func negotiate(t *testing.T, e iwarp.Enhanced, ird uint16) (reply Setup, p Params, ok bool) {
	t.Helper()
	var asked Setup
	f := (&iwarp.Frame{Kind: iwarp.Request, Revision: 2, Flags: iwarp.FlagEnhanced,
		PrivateLen: iwarp.EnhancedLen}).Append(nil)
	arriveFrame(t, &asked, e.Append(f), iwarp.Request)
	b, p, ok := asked.Accept(nil, &Proposal{IRD: ird, ORD: 4, ULPDU: MaxULPDU}, nil)
	arriveFrame(t, &reply, b, iwarp.Reply)
	return reply, p, ok
}

func arriveFrame(t *testing.T, s *Setup, b []byte, want iwarp.FrameKind) {
	t.Helper()
	for done := false; !done; {
		n := copy(s.Into(), b)
		b = b[n:]
		var ok bool
		if done, ok = s.Received(n, want); !ok || n == 0 && !done {
			t.Fatal("no frame")
		}
	}
}

// TestReadyKinds has both sides agree on each kind of ready-to-receive message, and none
// (RFC 6581 section 9).
func TestReadyKinds(t *testing.T) {
	for name, c := range map[string]struct {
		offer       iwarp.Enhanced
		ird         uint16 // of the responder
		write, read bool   // the ready-to-receive messages that it takes
		send        bool
		ready       RTR // the message of an initiator of ours then
		cause       iwarp.Cause
	}{
		"all": {offer: iwarp.Enhanced{RTRSend: true, RTRWrite: true, RTRRead: true}, ird: 4, write: true,
			ready: RTRWrite},
		"read": {offer: iwarp.Enhanced{RTRRead: true}, ird: 4, read: true, ready: RTRRead},
		"read or send": {offer: iwarp.Enhanced{RTRRead: true, RTRSend: true}, ird: 0, send: true,
			cause: iwarp.MPANoRTR},
		"send":           {offer: iwarp.Enhanced{RTRSend: true}, ird: 4, send: true, cause: iwarp.MPANoRTR},
		"none":           {offer: iwarp.Enhanced{}, ird: 4},
		"read, no depth": {offer: iwarp.Enhanced{RTRRead: true}, ird: 0},
	} {
		c.offer.PeerToPeer, c.offer.IRD, c.offer.ORD = true, 4, 4
		reply, p, ok := negotiate(t, c.offer, c.ird)
		d := reply.Depths
		if ok != (c.write || c.read || c.send) || reply.Rejected() == ok || d.RTRWrite != c.write ||
			d.RTRRead != c.read || d.RTRSend != c.send || ok && !p.AwaitRTR {
			t.Errorf("%s: %v, %+v, %+v", name, ok, d, p)
		}
		if !ok {
			continue
		}
		if p, cause := reply.Replied(&Proposal{IRD: 4, ORD: 4, ULPDU: MaxULPDU}); cause != c.cause ||
			p.SendRTR != c.ready {
			t.Errorf("%s: the initiator says %v, %v", name, p.SendRTR, cause)
		}
	}
}

// TestReadyRead begins with a READ of no bytes, with work requests behind it.
func TestReadyRead(t *testing.T) {
	a, b := newHost(t, 1, 4096), newHost(t, 2, 4096)
	p := Params{CRC: true, ULPDU: MaxULPDU, IRD: 2, ORD: 2}
	pa, pb := p, p
	pa.SendRTR, pb.AwaitRTR = RTRRead, true
	if !a.qp.Begin(pa) || !b.qp.Begin(pb) {
		t.Fatal("a stream cannot begin")
	}
	fill(b.mem[:3000], 1)
	b.post(verbs.SendWR{ID: 7, Op: verbs.OpWrite, SGL: []verbs.SGE{b.sge(0, 10)}, Remote: a.at(4000)})
	if b.transmit() {
		t.Fatal("the responder speaks first")
	}
	for id := range uint64(3) {
		a.post(verbs.SendWR{ID: id, Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(int(id)*1000, 1000)},
			Remote: b.at(int(id) * 1000)})
	}
	run(a, b, whole)
	for id := range uint64(3) {
		if wc := a.next(verbs.StatusSuccess); wc.ID != id {
			t.Errorf("completion of %d, want %d", wc.ID, id)
		}
	}
	b.next(verbs.StatusSuccess)
	if !bytes.Equal(a.mem[:3000], b.mem[:3000]) || !bytes.Equal(a.mem[4000:4010], b.mem[:10]) {
		t.Error("not what was read and written")
	}
	if len(a.events)+len(b.events) > 0 || a.qp.reads.Len() > 0 {
		t.Errorf("events %v %v, %d READs", a.events, b.events, a.qp.reads.Len())
	}
}

// TestReadyEmpty begins with an FPDU of no ULPDU, cut anywhere. A later one is an error.
func TestReadyEmpty(t *testing.T) {
	for name, p := range modes {
		for cut := range 12 {
			b := newHost(t, 2, 4096)
			p.ULPDU, p.IRD, p.ORD, p.AwaitRTR, p.MarkersOut = MaxULPDU, 2, 2, true, false
			if !b.qp.Begin(p) {
				t.Fatal("a stream cannot begin")
			}
			b.post(verbs.SendWR{Op: verbs.OpWrite})
			var empty []byte
			if p.MarkersIn {
				empty = iwarp.Marker(0).Append(empty)
			}
			empty = append(empty, 0, 0, 0, 0)
			sum := make([]byte, iwarp.CRCLen)
			if p.CRC {
				iwarp.PutCRC(sum, iwarp.UpdateCRC(0, empty))
			}
			again := append([]byte{0, 0, 0, 0}, make([]byte, iwarp.CRCLen)...)
			if p.CRC {
				iwarp.PutCRC(again[4:], iwarp.UpdateCRC(0, again[:4]))
			}
			empty = append(empty, sum...)
			b.arriveAll(empty[:min(cut, len(empty)-1)])
			if b.transmit() {
				t.Fatalf("%s: the responder speaks too early", name)
			}
			b.arriveAll(empty[min(cut, len(empty)-1):])
			if !b.transmit() || b.qp.State() == verbs.StateError {
				t.Fatalf("%s, cut at %d: the responder is silent, state %v", name, cut, b.qp.State())
			}
			if n := b.qp.Counts.RecvPackets; n != 1 {
				t.Errorf("%s, cut at %d: %d FPDUs were received", name, cut, n)
			}
			b.drain()
			b.next(verbs.StatusSuccess)
			b.arriveAll(again)
			if b.qp.State() != verbs.StateError {
				t.Errorf("%s: an empty FPDU in a stream is taken", name)
			}
		}
	}
}

// The Terminate of an initiator that cannot use the stream is the first FPDU, and a whole message (RFC 5040
// section 4.8).
func TestAppendTerminate(t *testing.T) {
	for name, p := range modes {
		b := newHost(t, 2, 4096)
		q := p
		q.ULPDU, q.IRD, q.ORD = MaxULPDU, 2, 2
		if !b.qp.Begin(q) {
			t.Fatal("a stream cannot begin")
		}
		b.arriveAll(AppendTerminate(nil, &p, iwarp.MPANoRTR))
		if f := b.qp.Failure(); b.qp.State() != verbs.StateError || b.transmit() || f == nil ||
			f.Reason != verbs.ReasonPeerRefused {
			t.Errorf("%s: state %v, %v", name, b.qp.State(), f)
		}
	}
}

// Rights that the queue pair does not give are refused even if the region gives them, and the responder says why.
func TestQueuePairAccess(t *testing.T) {
	for op, right := range map[verbs.SendOp]verbs.Access{verbs.OpWrite: verbs.RemoteWrite,
		verbs.OpRead: verbs.RemoteRead, verbs.OpFetchAdd: verbs.RemoteAtomic} {
		a, b := pair(t, 4096, Params{CRC: true})
		run(a, b, whole)
		access := (verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic) &^ right
		if err := b.qp.Modify(&verbs.QPAttr{Access: access}, verbs.MaskAccess); err != nil {
			t.Fatal(err)
		}
		fill(a.mem, 5)
		a.post(verbs.SendWR{Op: op, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.at(0)})
		a.transmit()
		before := bytes.Clone(b.mem)
		b.arrive(a.wire)
		if f := b.qp.Failure(); b.qp.State() != verbs.StateError || f == nil || f.Reason != verbs.ReasonQPAccess {
			t.Errorf("%v: state %v, %v", op, b.qp.State(), f)
		}
		if !bytes.Equal(b.mem, before) {
			t.Errorf("%v has changed memory", op)
		}
	}
}

// TestFrameByBytes has a frame with private data come byte by byte: it is complete with the last one.
func TestFrameByBytes(t *testing.T) {
	for _, private := range []int{0, 1, 200} {
		b := (&iwarp.Frame{Kind: iwarp.Request, Revision: 1, PrivateLen: uint16(private)}).Append(nil)
		b = append(b, bytes.Repeat([]byte{7}, private)...)
		var s Setup
		for i := range b {
			if n := copy(s.Into(), b[i:i+1]); n != 1 {
				t.Fatalf("byte %d of %d is not taken", i, len(b))
			}
			if done, ok := s.Received(1, iwarp.Request); !ok || done != (i == len(b)-1) {
				t.Fatalf("after byte %d of %d: done %v, good %v", i, len(b), done, ok)
			}
		}
		if len(s.Private) != private || len(s.Into()) != 0 {
			t.Errorf("%d bytes of private data, want %d; %d more are wanted", len(s.Private), private, len(s.Into()))
		}
	}
}
