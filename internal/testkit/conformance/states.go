// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var stateTests = []test{
	{name: "State/RC", run: func(t *T) { testStates(t, verbs.RC) }, needs: []Ability{Numbered}},
	{name: "State/UC", run: func(t *T) { testStates(t, verbs.UC) }, needs: []Ability{Unreliable}},
	{name: "State/UD", run: func(t *T) { testStates(t, verbs.UD) }, needs: []Ability{Datagrams}},
	{name: "State/XRC_INI", run: func(t *T) { testStates(t, verbs.XRCIni) }, needs: []Ability{XRC}},
	{name: "State/XRC_TGT", run: func(t *T) { testStates(t, verbs.XRCTgt) }, needs: []Ability{XRC}},
	{name: "State/Create", run: testCreateQP},
	{name: "State/Query", run: testQuery, needs: []Ability{Numbered}},
	{name: "State/Posting", run: testPostingStates, needs: []Ability{Numbered}},
	{name: "State/BadValues", run: testBadValues, needs: []Ability{Numbered}},
	{name: "State/ResetReuse", run: testResetReuse},
}

var states = []verbs.QPState{verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateSQD,
	verbs.StateSQE, verbs.StateError}

// neededBy are the attributes that each type needs on the way up (IBTA 11.2.5.2).
func neededBy(t verbs.QPType, to verbs.QPState) verbs.QPMask {
	path := verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN
	answers := verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
	retries := verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic
	switch {
	case to == verbs.StateInit && t == verbs.UD:
		return verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey
	case to == verbs.StateInit:
		return verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess
	case to == verbs.StateRTR && (t == verbs.RC || t == verbs.XRCTgt):
		return path | answers
	case to == verbs.StateRTR && t != verbs.UD:
		return path
	case to == verbs.StateRTS && (t == verbs.RC || t == verbs.XRCIni):
		return verbs.MaskSQPSN | retries
	case to == verbs.StateRTS && t == verbs.XRCTgt:
		return verbs.MaskSQPSN | verbs.MaskTimeout
	case to == verbs.StateRTS:
		return verbs.MaskSQPSN
	}
	return 0
}

// reachable says which changes of state exist (IBTA 10.3.1).
func reachable(t verbs.QPType, from, to verbs.QPState) bool {
	if to == verbs.StateReset || to == verbs.StateError {
		return true
	}
	type s = [2]verbs.QPState
	switch (s{from, to}) {
	case s{verbs.StateReset, verbs.StateInit}, s{verbs.StateInit, verbs.StateInit}, s{verbs.StateInit, verbs.StateRTR},
		s{verbs.StateRTR, verbs.StateRTS}, s{verbs.StateRTS, verbs.StateRTS},
		s{verbs.StateRTS, verbs.StateSQD}, s{verbs.StateSQD, verbs.StateSQD}, s{verbs.StateSQD, verbs.StateRTS}:
		return true
	case s{verbs.StateSQE, verbs.StateRTS}:
		return t == verbs.UC || t == verbs.UD
	}
	return false
}

// attributes are good values of all attributes, to connect to a peer.
func attributes(peer verbs.Endpoint) verbs.QPAttr {
	return verbs.QPAttr{Port: 1, Access: verbs.RemoteWrite | verbs.RemoteRead, AH: path(peer), PathMTU: verbs.MTU1024,
		DestQPN: peer.QPN, RQPSN: peer.PSN, SQPSN: 0x123456, Timeout: 10, RetryCount: 3, RNRRetry: 2, MinRNRTimer: 5,
		MaxRdAtomic: 4, MaxDestRdAtomic: 6, QKey: 0x1234}
}

// step takes the queue pair up to the next state, with the required attributes.
func (e *end) step(to verbs.QPState, peer verbs.Endpoint) {
	e.t.Helper()
	attr := attributes(peer)
	attr.State, attr.SQPSN = to, e.ep.PSN
	e.t.ok(e.qp.Modify(attr, verbs.MaskState|neededBy(e.qp.Type(), to)))
}

// inState makes a queue pair of a type in a state; nil: the type has no such state.
func (e *end) inState(typ verbs.QPType, s verbs.QPState, domain *verbs.XRCD) *verbs.QP {
	e.t.Helper()
	if typ == verbs.XRCTgt {
		e.qp = value(domain.CreateTargetQP(verbs.QPInit{}))(e.t)
		e.ep = value(e.qp.Endpoint(0))(e.t)
	} else {
		e.addQP(verbs.QPInit{Type: typ})
	}
	way := []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS}
	switch s {
	case verbs.StateError:
		if way = nil; e.t.lacking(ResetToErr) {
			way = []verbs.QPState{verbs.StateInit}
		}
	case verbs.StateReset:
		way = nil
	case verbs.StateInit:
		way = way[:1]
	case verbs.StateRTR:
		way = way[:2]
	case verbs.StateSQE:
		if typ != verbs.UC && typ != verbs.UD {
			return nil
		}
	}
	for _, w := range way {
		e.step(w, e.ep)
	}
	switch s {
	case verbs.StateSQD, verbs.StateError:
		e.t.ok(e.qp.Modify(verbs.QPAttr{State: s}, verbs.MaskState))
	case verbs.StateSQE:
		e.breakSend(typ)
	}
	if got := e.qp.State(); got != s {
		e.t.Fatalf("%v queue pair is in %v, want %v", typ, got, s)
	}
	return e.qp
}

// breakSend makes a send fail locally, which takes unreliable queue pairs to SQE.
func (e *end) breakSend(typ verbs.QPType) {
	e.t.Helper()
	wr := verbs.SendWR{ID: 99, Op: verbs.OpSend,
		SGL: []verbs.SGE{{Addr: e.mr.Addr(), Length: 8, LKey: e.mr.LKey() ^ 0x5a00}}}
	if typ == verbs.UD {
		wr.AH, wr.RemoteQPN = value(e.pd.CreateAH(way(e.ep)))(e.t), e.ep.QPN
	}
	e.post(wr)
	e.sent(verbs.StatusLocalProtectionError)
}

func testStates(t *T, typ verbs.QPType) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	var domain *verbs.XRCD
	if typ == verbs.XRCTgt {
		domain = value(dev.OpenXRCD())(t)
	}
	for _, from := range states {
		for _, to := range states {
			qp := e.inState(typ, from, domain)
			if qp == nil {
				continue
			}
			if from != verbs.StateReset || to != verbs.StateError || !t.lacking(ResetToErr) {
				e.change(from, to)
			}
			t.ok(qp.Close())
		}
	}
}

// change tries to take the queue pair from one state to another.
func (e *end) change(from, to verbs.QPState) {
	t, qp, typ := e.t, e.qp, e.qp.Type()
	attr := attributes(e.ep)
	attr.State, attr.CurState = to, from
	needed := neededBy(typ, to)
	if to > verbs.StateReset && to <= verbs.StateRTS && from != to-1 {
		needed = 0 // not the way up
	}
	if !reachable(typ, from, to) {
		t.fails(qp.Modify(attr, verbs.MaskState|needed), verbs.ErrInvalid, from.String(), to.String())
		if got := qp.State(); got != from {
			t.Fatalf("%v: refused Modify changed the state from %v to %v", typ, from, got)
		}
		return
	}
	e.refusedSteps(from, attr, needed)
	mask := verbs.MaskState | needed
	if to == verbs.StateRTS {
		mask |= verbs.MaskCurState
	}
	t.ok(qp.Modify(attr, mask))
	if got := qp.State(); got != to {
		t.Fatalf("%v: Modify from %v to %v left it in %v", typ, from, to, got)
	}
}

// refusedSteps tries a change of state without each attribute that it needs, and with
// each that it does not allow: the error names it, and nothing changes.
func (e *end) refusedSteps(from verbs.QPState, attr verbs.QPAttr, needed verbs.QPMask) {
	t, typ := e.t, e.qp.Type()
	t.Helper()
	for bit := verbs.MaskAccess; bit <= verbs.MaskDestQPN; bit <<= 1 {
		name := bit.String()
		if needed&bit != 0 {
			t.fails(e.qp.Modify(attr, verbs.MaskState|needed&^bit), verbs.ErrInvalid, name)
		} else if needless(typ, from, attr.State)&bit != 0 {
			err := e.qp.Modify(attr, verbs.MaskState|needed|bit)
			t.fails(err, verbs.ErrInvalid, name)
		}
		if got := e.qp.State(); got != from {
			t.Fatalf("%v: refused Modify without or with %v changed the state from %v to %v", typ, name, from, got)
		}
	}
	wrong := attr
	wrong.CurState = verbs.StateError
	if from == verbs.StateError {
		wrong.CurState = verbs.StateInit
	}
	t.fails(e.qp.Modify(wrong, verbs.MaskState|verbs.MaskCurState|needed), verbs.ErrInvalid, "CurState")
}

// needless are attributes that a change of state never allows, on any device.
func needless(t verbs.QPType, from, to verbs.QPState) verbs.QPMask {
	never := verbs.MaskRQPSN | verbs.MaskDestQPN | verbs.MaskPathMTU // set from INIT to RTR only
	if from == verbs.StateInit && to == verbs.StateRTR && t != verbs.UD {
		never = 0
	}
	if from != verbs.StateRTR || to != verbs.StateRTS {
		never |= verbs.MaskSQPSN
	}
	if t == verbs.UD {
		never |= verbs.MaskAccess | verbs.MaskAH | verbs.MaskTimeout | verbs.MaskRetryCount
	} else {
		never |= verbs.MaskQKey
	}
	if t == verbs.UC {
		never |= verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMinRNRTimer | verbs.MaskMaxRdAtomic |
			verbs.MaskMaxDestRdAtomic
	}
	if to == verbs.StateReset || to == verbs.StateError {
		never |= verbs.MaskAccess | verbs.MaskPort | verbs.MaskPKeyIndex
	}
	return never
}

func testCreateQP(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	lim := dev.Query()
	for _, c := range []struct {
		word string
		init verbs.QPInit
	}{
		{"Type", verbs.QPInit{SendCQ: e.scq, RecvCQ: e.rcq}},
		{"SendCQ", verbs.QPInit{Type: verbs.RC, RecvCQ: e.rcq}},
		{"RecvCQ", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq}},
		{"XRCD", verbs.QPInit{Type: verbs.XRCTgt}},
		{"MaxSendWR", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq,
			Cap: verbs.QPCap{MaxSendWR: lim.MaxQPWR + 1}}},
		{"MaxRecvWR", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq, Cap: verbs.QPCap{MaxRecvWR: -1}}},
		{"MaxSendSGE", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq,
			Cap: verbs.QPCap{MaxSendSGE: lim.MaxSGE + 1}}},
		{"MaxRecvSGE", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq,
			Cap: verbs.QPCap{MaxRecvSGE: lim.MaxSGE + 1}}},
		{"MaxInline", verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq,
			Cap: verbs.QPCap{MaxInline: lim.MaxInline + 1}}},
	} {
		_, err := e.pd.CreateQP(c.init)
		t.fails(err, verbs.ErrInvalid, c.word)
	}
	e.addQP(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 5, MaxRecvWR: 6, MaxSendSGE: 7, MaxRecvSGE: 8, MaxInline: 9}})
	attr := e.qp.Query()
	c := attr.Cap
	if attr.State != verbs.StateReset || c.MaxSendWR < 5 || c.MaxRecvWR < 6 || c.MaxSendSGE < 7 || c.MaxRecvSGE < 8 ||
		c.MaxInline < 9 {
		t.Errorf("new queue pair: %v, %+v", attr.State, c)
	}
	if e.qp.Type() != verbs.RC || e.qp.Device() != dev || e.qp.Num() < 2 || e.qp.Num() > 0xfffffe {
		t.Errorf("new queue pair: %v, number %#x", e.qp.Type(), e.qp.Num())
	}
}

func testQuery(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.inState(verbs.RC, verbs.StateRTS, nil)
	want := attributes(e.ep)
	got := e.qp.Query()
	want.SQPSN = e.ep.PSN
	if got.State != verbs.StateRTS || got.CurState != verbs.StateRTS || got.Port != want.Port ||
		got.Access != want.Access || got.AH != want.AH ||
		got.PathMTU != want.PathMTU || got.DestQPN != want.DestQPN || got.RQPSN != want.RQPSN ||
		got.SQPSN != want.SQPSN ||
		got.Timeout != want.Timeout || got.RetryCount != want.RetryCount || got.RNRRetry != want.RNRRetry ||
		got.MinRNRTimer != want.MinRNRTimer || got.MaxRdAtomic != want.MaxRdAtomic ||
		got.MaxDestRdAtomic != want.MaxDestRdAtomic {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	t.ok(e.qp.Modify(verbs.QPAttr{Access: verbs.RemoteAtomic, MinRNRTimer: 9}, verbs.MaskAccess|verbs.MaskMinRNRTimer))
	if got = e.qp.Query(); got.Access != verbs.RemoteAtomic || got.MinRNRTimer != 9 || got.State != verbs.StateRTS {
		t.Errorf("after Modify without a state: %+v", got)
	}
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateSQD, Timeout: 3, RetryCount: 1, MaxRdAtomic: 2},
		verbs.MaskState|verbs.MaskTimeout|
			verbs.MaskRetryCount|verbs.MaskMaxRdAtomic))
	if got = e.qp.Query(); got.Timeout != 3 || got.RetryCount != 1 || got.MaxRdAtomic != 2 {
		t.Errorf("after Modify in SQD: %+v", got)
	}
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	if got = e.qp.Query(); got.State != verbs.StateReset || got.Access != 0 || got.DestQPN != 0 {
		t.Errorf("after RESET: %+v", got)
	}
}

func testPostingStates(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	for _, s := range states {
		qp := e.inState(verbs.RC, s, nil)
		if qp == nil {
			continue
		}
		send := qp.PostSend(&verbs.SendWR{ID: 5, Op: verbs.OpSend, Flags: verbs.Signaled})
		recv := qp.PostRecv(&verbs.RecvWR{ID: 6})
		if s < verbs.StateRTS {
			t.fails(send, verbs.ErrState, s.String())
		} else {
			t.ok(send)
		}
		if s == verbs.StateReset {
			t.fails(recv, verbs.ErrState)
		} else {
			t.ok(recv)
		}
		if s == verbs.StateError {
			if wc := e.sent(verbs.StatusWRFlushError); wc.ID != 5 || wc.QPN != qp.Num() {
				t.Errorf("flushed %+v", wc)
			}
			if wc := e.received(verbs.StatusWRFlushError); wc.ID != 6 || wc.QPN != qp.Num() {
				t.Errorf("flushed %+v", wc)
			}
		}
		t.ok(qp.Close())
	}
}

func testBadValues(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	try := func(word string, from, to verbs.QPState, change func(*verbs.QPAttr)) {
		t.Helper()
		e.inState(verbs.RC, from, nil)
		attr := attributes(e.ep)
		attr.State = to
		change(&attr)
		err := e.qp.Modify(attr, verbs.MaskState|neededBy(verbs.RC, to))
		t.fails(err, verbs.ErrInvalid, word)
		if got := e.qp.State(); got != from {
			t.Errorf("%s: refused Modify changed the state to %v", word, got)
		}
	}
	try("Port", verbs.StateReset, verbs.StateInit, func(a *verbs.QPAttr) { a.Port = 7 })
	try("PKeyIndex", verbs.StateReset, verbs.StateInit, func(a *verbs.QPAttr) { a.PKeyIndex = 500 })
	try("Access", verbs.StateReset, verbs.StateInit, func(a *verbs.QPAttr) { a.Access = verbs.MWBind })
	try("PathMTU", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.PathMTU = 0 })
	try("PathMTU", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.PathMTU = 6 })
	try("DestQPN", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.DestQPN = 1 << 24 })
	try("RQPSN", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.RQPSN = 1 << 24 })
	try("MinRNRTimer", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.MinRNRTimer = 32 })
	destination := "DGID"
	if e.ep.LID != 0 {
		destination = "DLID"
	}
	try(destination, verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.AH.DGID, a.AH.DLID = verbs.GID{}, 0 })
	try("SGIDIndex", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.AH.SGIDIndex = 99 })
	try("AH.Port", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.AH.Port = 7 })
	try("Timeout", verbs.StateRTR, verbs.StateRTS, func(a *verbs.QPAttr) { a.Timeout = 32 })
	try("RetryCount", verbs.StateRTR, verbs.StateRTS, func(a *verbs.QPAttr) { a.RetryCount = 8 })
	try("RNRRetry", verbs.StateRTR, verbs.StateRTS, func(a *verbs.QPAttr) { a.RNRRetry = 8 })
	try("SQPSN", verbs.StateRTR, verbs.StateRTS, func(a *verbs.QPAttr) { a.SQPSN = 1 << 24 })
	try("MaxRdAtomic", verbs.StateRTR, verbs.StateRTS, func(a *verbs.QPAttr) { a.MaxRdAtomic = 255 })
	try("MaxDestRdAtomic", verbs.StateInit, verbs.StateRTR, func(a *verbs.QPAttr) { a.MaxDestRdAtomic = 255 })
	e.inState(verbs.RC, verbs.StateInit, nil)
	err := e.qp.Modify(verbs.QPAttr{State: 9}, verbs.MaskState)
	if err == nil || !strings.Contains(err.Error(), "INIT") {
		t.Errorf("Modify to state 9: %v", err)
	}
	t.fails(e.qp.Modify(verbs.QPAttr{}, verbs.MaskCap), verbs.ErrNotSupported, "Cap")
}

// testResetReuse takes a connection that was used through RESET to a new one.
func testResetReuse(t *T) {
	a, b := t.pair(setup{})
	for round := range 3 {
		b.recv(1, 0, 64)
		b.recv(2, 0, 64)
		a.fill(0, 64, round)
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 64)})
		b.received(verbs.StatusSuccess)
		b.holds(0, 64, round)
		a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(64, 64), Remote: b.at(0)})
		for _, e := range []*end{a, b} {
			t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
			e.ep = value(e.qp.Endpoint(0))(t)
		}
		t.none(b.rcq) // RESET drops receives without completions
		t.join(a, b, verbs.ConnectOptions{})
	}
}
