// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// testWhyFailed has both sides say which check refused a request, with its numbers.
func testWhyFailed(t *T) {
	const size = 1 << 16
	foreign := func(t *T, b *end) verbs.Remote { return t.newEnd(b.dev, setup{}).at(0) } // of another protection domain
	da, db := t.devices()
	for name, c := range map[string]struct {
		access  verbs.Access // of the region
		allows  verbs.Access // of the queue pair
		op      verbs.SendOp
		change  func(*verbs.Remote)
		other   func(*T, *end) verbs.Remote
		reason  verbs.Reason
		says    string // part of the responder's text
		invalid bool   // the status is RemoteInvalidRequestError
	}{
		"bounds": {op: verbs.OpWrite, change: func(r *verbs.Remote) { r.Addr += size }, reason: verbs.ReasonOutside,
			says: "which has 65536 bytes at"},
		"key": {op: verbs.OpRead, change: func(r *verbs.Remote) { r.Key ^= 0x10000 }, reason: verbs.ReasonNoKey,
			says: "no such key"},
		"access": {op: verbs.OpFetchAdd, access: verbs.LocalWrite | verbs.RemoteRead, reason: verbs.ReasonNoRight,
			says: "allows LOCAL_WRITE|REMOTE_READ and not REMOTE_ATOMIC"},
		"qp": {op: verbs.OpRead, allows: verbs.RemoteWrite, reason: verbs.ReasonQPAccess,
			says: "it allows REMOTE_WRITE and not REMOTE_READ", invalid: true},
		"owner": {op: verbs.OpRead, other: foreign, reason: verbs.ReasonOtherOwner,
			says: "key of another owner: 8 bytes at"},
		"align": {op: verbs.OpCompareSwap, change: func(r *verbs.Remote) { r.Addr += 4 },
			reason: verbs.ReasonMisaligned, says: "the peer's COMP_SWAP: remote invalid request error", invalid: true},
		"swap": {op: verbs.OpCompareSwap, access: verbs.LocalWrite | verbs.RemoteWrite, reason: verbs.ReasonNoRight,
			says: "the peer's COMP_SWAP: remote access error"},
		"bounds2": {op: verbs.OpRead, change: func(r *verbs.Remote) { r.Addr -= 8 }, reason: verbs.ReasonOutside,
			says: "8 bytes at"},
	} {
		if t.without(c.op) {
			continue
		}
		a, b := t.pairOf(da, db, setup{size: size, access: c.access, connect: verbs.ConnectOptions{Access: c.allows}})
		remote := b.at(0)
		if c.change != nil {
			c.change(&remote)
		}
		if c.other != nil {
			remote = c.other(t, b)
		}
		if a.qp.Failure() != nil || b.qp.Failure() != nil {
			t.Errorf("%s: a failure before there was one", name)
		}
		local := a.sgl(0, 8)
		if c.access != 0 { // the READ's data is written there
			mr := value(a.pd.RegMR(make([]byte, 8), verbs.LocalWrite))(t)
			local = []verbs.SGE{mr.SGE(0, 8)}
		}
		a.post(verbs.SendWR{ID: 4711, Op: c.op, SGL: local, Remote: remote})
		status := verbs.StatusRemoteAccessError
		// iWARP has one cause for access by key and by queue pair
		if c.invalid && !(t.late() && c.reason == verbs.ReasonQPAccess) {
			status = verbs.StatusRemoteInvalidRequestError
		}
		side, id := verbs.FailedSend, uint64(4711)
		if c.op == verbs.OpWrite && t.late() { // it is complete before the peer refuses it
			side, id = verbs.FailedCompleted, 0
			a.sent(verbs.StatusSuccess)
		} else if wc := a.sent(status); wc.VendorErr != uint32(verbs.ReasonPeerRefused) {
			t.Errorf("%s: VendorErr %v", name, verbs.Reason(wc.VendorErr))
		}
		a.state(verbs.StateError)
		if f := a.qp.Failure(); f == nil || f.Side != side || f.Status != status ||
			f.Reason != verbs.ReasonPeerRefused || f.ID != id ||
			f.QPN != a.qp.Num() || f.Key != remote.Key || f.Addr != remote.Addr || f.Length != 8 {
			t.Errorf("%s: the requester knows %v", name, f)
		}
		b.state(verbs.StateError)
		f := b.qp.Failure()
		if f == nil || f.Side != verbs.FailedRequest || f.Status != status || f.Reason != c.reason ||
			f.Key != remote.Key || f.Addr != remote.Addr || f.Length != 8 ||
			!strings.Contains(f.String(), c.says) {
			t.Errorf("%s: the responder knows %v, want %v", name, f, c.reason)
		}
		t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
		if f := b.qp.Failure(); f != nil {
			t.Errorf("%s: after RESET: %v", name, f)
		}
	}
}

// testWhyLocal has a side say which entry of its own list was refused, and that a receive was too short.
func testWhyLocal(t *T) {
	testEntryRefused(t)
	a, b := t.pair(setup{})
	b.recv(6, 0, 100)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 101)})
	b.received(verbs.StatusLocalLengthError)
	testWrongLength(t)
	if f := b.qp.Failure(); f == nil || f.Side != verbs.FailedRecv || f.Reason != verbs.ReasonTooLong || f.ID != 6 ||
		!strings.Contains(f.String(), "the receive has 100 bytes") {
		t.Errorf("%v", f)
	}
}

// testWrongLength has a side say that the list of an atomic has not 8 bytes.
func testWrongLength(t *T) {
	if t.without(verbs.OpFetchAdd) {
		return
	}
	a, b := t.pair(setup{})
	a.post(verbs.SendWR{ID: 8, Op: verbs.OpFetchAdd, SGL: a.sgl(0, 4), Remote: b.at(0)})
	wc := a.sent(verbs.StatusLocalLengthError)
	if f := a.qp.Failure(); f == nil || f.Reason != verbs.ReasonNotEight || wc.VendorErr != uint32(f.Reason) ||
		!strings.HasSuffix(f.String(), "an atomic takes 8 bytes, and the list has 4") {
		t.Errorf("%v, VendorErr %d", f, wc.VendorErr)
	}
}

func testEntryRefused(t *T) {
	a, _ := t.pair(setup{})
	var log testrun.Buffer
	t.ok(a.dev.LogFailures(slog.New(slog.NewJSONHandler(&log, nil))))
	good, bad := a.mr.SGE(0, 8), a.mr.SGE(0, 8)
	bad.LKey ^= 0x10000
	a.post(verbs.SendWR{ID: 5, Op: verbs.OpSend, SGL: []verbs.SGE{good, bad}})
	wc := a.sent(verbs.StatusLocalProtectionError)
	if f := a.qp.Failure(); f == nil || f.Reason != verbs.ReasonNoKey || f.Key != bad.LKey || f.Length != 8 ||
		f.ID != 5 || wc.VendorErr != uint32(f.Reason) {
		t.Errorf("%v, VendorErr %d", f, wc.VendorErr)
	}
	t.eventually(func() bool { return strings.Contains(log.String(), `"reason":"no such key"`) },
		"the failure is logged")
	if text := log.String(); !strings.Contains(text, `"wr_id":5`) ||
		!strings.Contains(text, fmt.Sprintf(`"key":"0x%08x"`, uint32(bad.LKey))) ||
		!strings.Contains(text, `"status":"local protection error"`) || strings.Count(text, "\n") != 1 {
		t.Errorf("logged is %s", text)
	}
}
