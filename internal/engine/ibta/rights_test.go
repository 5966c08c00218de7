// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// requests are the requests that name memory, and the right that each needs (IBTA 10.6.3.1, annex A19).
var requests = map[string]struct {
	op        ib.Operation
	payload   int
	placement ib.Placement
	right     verbs.Access
}{
	"WRITE":                {ib.OpWriteOnly, 8, 0, verbs.RemoteWrite},
	"READ":                 {ib.OpReadRequest, 0, 0, verbs.RemoteRead},
	"FETCH AND ADD":        {ib.OpFetchAdd, 0, 0, verbs.RemoteAtomic},
	"COMPARE AND SWAP":     {ib.OpCompareSwap, 0, 0, verbs.RemoteAtomic},
	"ATOMIC WRITE":         {ib.OpAtomicWrite, 8, 0, verbs.RemoteWrite},
	"FLUSH to visibility":  {ib.OpFlush, 0, ib.PlacementGlobal, verbs.FlushGlobal},
	"FLUSH to persistence": {ib.OpFlush, 0, ib.PlacementPersistent, verbs.FlushPersistent},
}

// A request is carried out if both the queue pair and the region give its right, and no other right stands in
// for it. A refused request changes nothing (IBTA 9.7.4.1.3, 9.7.4.1.5, 10.6.3.1).
func TestRights(t *testing.T) {
	for name, r := range requests {
		all := everything
		if r.right == verbs.FlushPersistent {
			all &^= verbs.FlushPersistent // of memory that is not persistent
		}
		for _, c := range []struct {
			qp, region verbs.Access
			refused    ib.NAKCode
		}{
			{r.right, r.right | verbs.LocalWrite, 0},
			{everything &^ r.right, everything, ib.NAKInvalidRequest},
			{everything, everything &^ r.right, ib.NAKRemoteAccessError},
		} {
			if r.right == verbs.FlushPersistent && c.refused == 0 {
				continue // [TestFlushPersistent]
			}
			s := start(t, verbs.RC, func(o *options) { o.attr.Access = c.qp | verbs.LocalWrite })
			s.mr = s.register(64, c.region&all)
			for i := range s.mr.Bytes() {
				s.mr.Bytes()[i] = 0xe0
			}
			before := bytes.Clone(s.mr.Bytes())
			p := s.reth(s.packet(r.op, recvPSN, r.payload), 0, 8)
			p.FETH.Placement = r.placement
			p.AtomicETH.Compare, p.AtomicETH.Swap = 0xe0e0e0e0e0e0e0e0, 1
			reason := s.in(p)
			if c.refused == 0 {
				if reason != ibta.Taken || s.q.State() == verbs.StateError {
					t.Errorf("%s where just that is allowed: %v, state %v", name, reason, s.q.State())
				}
				continue
			}
			s.wantAETH(recvPSN, ib.NAK(c.refused))
			s.wantState(verbs.StateError)
			why := verbs.ReasonNoRight
			if c.refused == ib.NAKInvalidRequest {
				why = verbs.ReasonQPAccess
			}
			if f := s.q.Failure(); f.Reason != why || f.Need != r.right {
				t.Errorf("%s without the right: %v", name, f)
			}
			if !bytes.Equal(s.mr.Bytes(), before) {
				t.Errorf("%s without the right has changed memory", name)
			}
		}
	}
}

// The refusal of a request says which check failed, which the code of its NAK does not (IBTA 9.7.5.2).
func TestRefusalReasons(t *testing.T) {
	for name, c := range map[string]struct {
		send   func(s *script)
		code   ib.NAKCode
		reason verbs.Reason
		detail string
	}{
		"a READ longer than the device takes": {func(s *script) {
			s.host.Device.MaxMsgSize = 2 * mtu
			s.in(s.reth(s.packet(ib.OpReadRequest, recvPSN, 0), 0, 2*mtu+1))
		}, ib.NAKInvalidRequest, verbs.ReasonTooLong, "the device takes 512 bytes"},
		"a WRITE longer than the device takes": {func(s *script) {
			s.host.Device.MaxMsgSize = 2 * mtu
			s.in(s.reth(s.packet(ib.OpWriteFirst, recvPSN, mtu), 0, 2*mtu+1))
		}, ib.NAKInvalidRequest, verbs.ReasonTooLong, "the device takes 512 bytes"},
		"a third READ": {func(s *script) {
			for i := range 3 {
				s.q.HandlePacket(s.now, s.reth(s.packet(ib.OpReadRequest, recvPSN.Add(i), 0), 0, 8), arrival)
			}
			s.drain()
			s.out = s.out[2:]
		}, ib.NAKInvalidRequest, verbs.ReasonTooMany, "max_dest_rd_atomic 2"},
		"an atomic at an odd address": {func(s *script) {
			s.in(s.reth(s.packet(ib.OpFetchAdd, recvPSN, 0), 1, 8))
		}, ib.NAKInvalidRequest, verbs.ReasonMisaligned, ""},
		"an ATOMIC WRITE at an odd address": {func(s *script) {
			s.in(s.reth(s.packet(ib.OpAtomicWrite, recvPSN, 8), 4, 8))
		}, ib.NAKInvalidRequest, verbs.ReasonMisaligned, ""},
		"an ATOMIC WRITE of 4 bytes": {func(s *script) {
			s.in(s.reth(s.packet(ib.OpAtomicWrite, recvPSN, 8), 8, 4))
		}, ib.NAKInvalidRequest, verbs.ReasonMalformed, ""},
		"the middle of nothing": {func(s *script) {
			s.in(s.packet(ib.OpWriteMiddle, recvPSN, mtu))
		}, ib.NAKInvalidRequest, verbs.ReasonMalformed, ""},
		"a READ beyond the region": {func(s *script) {
			s.in(s.reth(s.packet(ib.OpReadRequest, recvPSN, 0), 16<<10, 1))
		}, ib.NAKRemoteAccessError, verbs.ReasonOutside, ""},
		"a WRITE whose region ends in its middle": {func(s *script) {
			s.in(s.reth(s.packet(ib.OpWriteFirst, recvPSN, mtu), 0, 2*mtu))
			if err := s.mr.Close(); err != nil {
				s.Fatal(err)
			}
			s.in(s.packet(ib.OpWriteLast, recvPSN.Next(), mtu))
		}, ib.NAKRemoteAccessError, verbs.ReasonUnmapped, ""},
		"a FLUSH to persistence that the device cannot make": {func(s *script) {
			p := s.reth(s.packet(ib.OpFlush, recvPSN, 0), 0, 8)
			p.FETH.Placement = ib.PlacementPersistent
			s.in(p)
		}, ib.NAKRemoteOperationalError, verbs.ReasonUnknown, ""},
	} {
		s := start(t, verbs.RC)
		c.send(s)
		s.wantAETH(s.out[0].PSN, ib.NAK(c.code))
		s.wantState(verbs.StateError)
		if f := s.q.Failure(); f.Side != verbs.FailedRequest || f.Reason != c.reason || f.Detail != c.detail {
			t.Errorf("%s: %v", name, f)
		}
	}
}
