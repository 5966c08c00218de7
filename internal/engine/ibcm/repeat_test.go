// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A REQ that comes again gets the same answer: MRA while the program thinks,
// REP, REJ, and in time wait that the connection is stale.
func TestRepeatedREQ(t *testing.T) {
	s := listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	id := s.event(EventRequest).ID
	s.says(mad.AttrREQ, reqTID, request())
	var mra mad.MRA
	if h := s.wants(mad.AttrMRA, &mra); h.TID != reqTID || mra.LocalCommID != id || mra.RemoteCommID != peerID ||
		mra.Message != mad.MessageREQ || mra.ServiceTimeout != 21 {
		t.Errorf("MRA %+v", mra)
	}
	s.quiet()
	s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x11}))
	var first, second mad.REP
	s.wants(mad.AttrREP, &first)
	s.says(mad.AttrREQ, reqTID, request())
	s.wants(mad.AttrREP, &second)
	if first != second {
		t.Errorf("REP %+v, first it was %+v", second, first)
	}
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: peerID, RemoteCommID: id})
	s.event(EventEstablished)
	s.says(mad.AttrREQ, reqTID, request()) // was late
	s.quiet()
	s.says(mad.AttrDREQ, 1, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.event(EventDisconnected)
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.says(mad.AttrREQ, reqTID, request())
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejStaleConnection || rej.Message != mad.MessageREQ ||
		rej.RemoteCommID != peerID {
		t.Errorf("REJ %+v", rej)
	}
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()
}

func TestRepeatedREQAfterReject(t *testing.T) {
	s := listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	id := s.event(EventRequest).ID
	s.fails(s.e.Reject(s.now, id, &RejectParams{PrivateData: make([]byte, 149)}), verbs.ErrInvalid)
	s.fails(s.e.Reject(s.now, id, &RejectParams{Info: make([]byte, 73)}), verbs.ErrInvalid)
	s.ok(s.e.Reject(s.now, id, &RejectParams{Info: []byte{1, 2}, PrivateData: []byte("no")}))
	for range 2 {
		var rej mad.REJ
		if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejConsumer || rej.LocalCommID != 0 ||
			rej.RemoteCommID != peerID ||
			rej.Message != mad.MessageREQ || rej.ARILen != 2 || rej.ARI[1] != 2 || string(rej.Private[:3]) != "no\x00" {
			t.Errorf("REJ %+v", rej)
		}
		s.quiet()
		s.says(mad.AttrREQ, reqTID, request())
	}
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.fails(s.e.Accept(s.now, id, &AcceptParams{}), ErrNotFound)
	// Another request with the same ID is another request.
	s.says(mad.AttrREQ, reqTID+1, request())
	s.ok(s.e.Release(s.now, s.event(EventRequest).ID))
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.gone()
}

// A REP that comes again: MRA while the program thinks, RTU afterwards.
func TestRepeatedREP(t *testing.T) {
	s, id, _, tid := connecting(t)
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	s.says(mad.AttrREP, tid, reply(id))
	var mra mad.MRA
	if s.wants(mad.AttrMRA, &mra); mra.Message != mad.MessageREP || mra.LocalCommID != id ||
		mra.RemoteCommID != peerID {
		t.Errorf("MRA %+v", mra)
	}
	s.ok(s.e.Ready(s.now, id, []byte("x")))
	s.wants(mad.AttrRTU, &mad.RTU{})
	s.says(mad.AttrREP, tid, reply(id))
	var rtu mad.RTU
	if s.wants(mad.AttrRTU, &rtu); rtu.Private[0] != 'x' {
		t.Errorf("RTU %+v", rtu)
	}
	s.quiet()
	// A REP from another, or with another ID, is none for this connection.
	other := reply(id)
	other.LocalCommID++
	s.says(mad.AttrREP, tid+1, other)
	s.quiet()
	s.says(mad.AttrREP, tid, other)
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejInvalidCommID || rej.Message != mad.MessageREP ||
		rej.RemoteCommID != other.LocalCommID {
		t.Errorf("REJ %+v", rej)
	}
	s.quiet()
	s.ok(s.e.Release(s.now, id))
	dreq := s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.says(mad.AttrDREP, dreq.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
	s.gone()
}

// A REP that cannot be used is rejected, as often as it comes.
func TestRejectREP(t *testing.T) {
	s, id, _, tid := connecting(t)
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	s.ok(s.e.Reject(s.now, id, &RejectParams{Reason: mad.RejInsufficientResources}))
	for range 2 {
		var rej mad.REJ
		if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejInsufficientResources || rej.Message != mad.MessageREP ||
			rej.LocalCommID != id || rej.RemoteCommID != peerID {
			t.Errorf("REJ %+v", rej)
		}
		s.says(mad.AttrREP, tid, reply(id))
	}
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.gone()
}

// Data before the RTU: the RTU is not waited for any more.
func TestEstablishedByData(t *testing.T) {
	s, id := accepting(t)
	s.ok(s.e.Established(s.now, id))
	s.event(EventEstablished)
	s.ok(s.e.Established(s.now, id))
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: peerID, RemoteCommID: id})
	s.passes(time.Hour)
	s.quiet()

	s, id, _, _ = connecting(t)
	s.fails(s.e.Established(s.now, id), verbs.ErrState)
}

// An MRA gives the peer time, and does not make us deaf: the request is
// repeated at leisure, and does not count.
func TestMRA(t *testing.T) {
	s, id, _, tid := connecting(t)
	mra := &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREQ, ServiceTimeout: 24}
	s.says(mad.AttrMRA, tid, mra)
	s.event(EventMRA)
	n := 0
	for range 69 {
		s.passes(time.Second)
		for o := (Datagram{}); s.e.NextMAD(&o); n++ {
		}
		s.says(mad.AttrMRA, tid, mra) // the kernel answers each; repeated ones have no effect
		s.e.HandleTimeout(s.now)
	}
	if n < 3 || n > 20 {
		t.Errorf("%d repetitions in 69 s", n)
	}
	s.quiet()
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	s.ok(s.e.MRA(s.now, id, 22, []byte("wait")))
	var out mad.MRA
	if s.wants(mad.AttrMRA, &out); out.ServiceTimeout != 22 || out.Message != mad.MessageREP ||
		string(out.Private[:4]) != "wait" {
		t.Errorf("MRA %+v", out)
	}
	s.fails(s.e.MRA(s.now, id, 32, nil), verbs.ErrInvalid)
	s.fails(s.e.MRA(s.now, id, 2, make([]byte, 223)), verbs.ErrInvalid)

	// A REP's MRA, and none that answers something else.
	s, id = accepting(t)
	s.fails(s.e.MRA(s.now, id, 22, nil), verbs.ErrState)
	s.says(mad.AttrMRA, reqTID, &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREQ,
		ServiceTimeout: 31})
	s.says(mad.AttrMRA, reqTID+1, &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREP,
		ServiceTimeout: 31})
	s.says(mad.AttrMRA, reqTID, &mad.MRA{LocalCommID: peerID + 1, RemoteCommID: id, Message: mad.MessageREP,
		ServiceTimeout: 31})
	s.quiet()
	s.says(mad.AttrMRA, reqTID, &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREP,
		ServiceTimeout: 31})
	s.event(EventMRA)
}

// However long an MRA asks for, and however often: there is an end, on both sides.
func TestPatienceEnds(t *testing.T) {
	for _, c := range []struct {
		message  mad.Message
		every    time.Duration
		timeout  mad.Timeout
		patience clock.Time
	}{
		{message: mad.MessageREQ, every: time.Second, timeout: 24, patience: maxExtensionREQ},
		{message: mad.MessageREQ, every: time.Hour, timeout: 31, patience: maxExtensionREQ},
		{message: mad.MessageREP, every: time.Second, timeout: 12, patience: maxExtensionREP},
		{message: mad.MessageREP, every: time.Minute, timeout: 31, patience: maxExtensionREP},
	} {
		var s *script
		var id mad.CommID
		tid, retries := uint64(reqTID), clock.Time(request().MaxCMRetries)
		if c.message == mad.MessageREQ {
			s, id, _, tid = connecting(t)
			retries = defaultRetries
		} else {
			s, id = accepting(t)
		}
		mra := &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: c.message, ServiceTimeout: c.timeout}
		s.says(mad.AttrMRA, tid, mra)
		s.event(EventMRA)
		start, said := s.now, s.now
		for s.e.byID[id] != nil && s.e.byID[id].state != refused && s.now < start+clock.Time(time.Hour) {
			s.passes(100 * time.Millisecond)
			for o := (Datagram{}); s.e.NextMAD(&o); {
			}
			if s.now-said >= clock.Time(c.every) {
				s.says(mad.AttrMRA, tid, mra)
				said = s.now
			}
		}
		s.event(EventUnreachable)
		// The last repetition of the patient ones may be half through.
		retry := clock.Time(mad.Timeout(18).Duration())
		if d := s.now - start; d < c.patience || d > c.patience+extendedInterval+(retries+2)*retry {
			t.Errorf("%+v: gave up after %v", c, time.Duration(d))
		}
		s.gone()
	}
}

// A peer that answers a DREQ again in its time wait, and not after it, as Linux: where its DREP
// is lost, it is asked again in time, also if it took a while to answer.
func TestDREPLost(t *testing.T) {
	wait := mad.Timeout(17).Duration()
	for _, answered := range []time.Duration{0, wait / 4, wait} { // how long after the DREQ
		s, id, _ := connected(t)
		s.ok(s.e.Disconnect(s.now, id, nil))
		tid := s.wants(mad.AttrDREQ, &mad.DREQ{}).TID
		s.passes(answered)
		for o := (Datagram{}); s.e.NextMAD(&o); {
		}
		s.passes(wait - 1)
		s.wants(mad.AttrDREQ, &mad.DREQ{})
		s.says(mad.AttrDREP, tid, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
		s.event(EventDisconnected)
	}
}

// A device that is about to be closed says once more that a connection has ended, of which the peer may not have heard.
func TestLeave(t *testing.T) {
	s, _, _ := connected(t)
	s.e.Leave(s.now)
	s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.quiet()

	s, id, _ := connected(t)
	s.ok(s.e.Disconnect(s.now, id, nil))
	s.ok(s.e.Release(s.now, id))
	first := s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.e.Leave(s.now)
	if again := s.wants(mad.AttrDREQ, &mad.DREQ{}); again.TID != first.TID {
		t.Errorf("another DREQ: %#x, the first was %#x", again.TID, first.TID)
	}
	s.quiet()

	s = listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	s.event(EventRequest)
	s.e.Leave(s.now)
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.e.Leave(s.now)
	s.quiet()
}

// Both sides disconnect at once.
func TestCrossingDREQ(t *testing.T) {
	s, id, tid := connected(t)
	s.ok(s.e.Disconnect(s.now, id, nil))
	s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.says(mad.AttrDREQ, 5, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.event(EventDisconnected)
	s.says(mad.AttrDREP, tid, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
	s.quiet()
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()
}

// A peer that accepts and disconnects before the program came to Ready.
func TestDREQBeforeRTU(t *testing.T) {
	s, id, _, tid := connecting(t)
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	s.says(mad.AttrDREQ, 5, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.event(EventDisconnected)
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.fails(s.e.Ready(s.now, id, nil), verbs.ErrState)
	s.passes(time.Second)
	s.event(EventTimeWaitExit)

	// The other way round: the DREQ shows that the RTU was lost.
	s, id = accepting(t)
	s.says(mad.AttrDREQ, 5, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.event(EventEstablished)
	s.event(EventDisconnected)
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: peerID, RemoteCommID: id})
	s.quiet()
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()
}
