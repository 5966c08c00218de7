// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// transition is the attributes that one change of state requires and allows (IBTA 11.2.5.2, tables
// 93 to 97).
type transition struct {
	required, optional QPMask
}

// step is a change of state.
type step struct{ from, to QPState }

// Attributes that travel together in the table.
const (
	pathAttrs = MaskAH | MaskPathMTU | MaskDestQPN | MaskRQPSN
	altAttrs  = MaskAltPath | MaskMigState
	sendRetry = MaskTimeout | MaskRetryCount | MaskRNRRetry | MaskMaxRdAtomic
)

// transitions has one table per transport. Every state may go to RESET and to ERR with no attribute
// but the state, so these are not listed.
var transitions = map[QPType]map[step]transition{
	RC: {
		{StateReset, StateInit}: {MaskPKeyIndex | MaskPort | MaskAccess, 0},
		{StateInit, StateInit}:  {0, MaskPKeyIndex | MaskPort | MaskAccess},
		{StateInit, StateRTR}: {pathAttrs | MaskMaxDestRdAtomic | MaskMinRNRTimer,
			MaskAltPath | MaskAccess | MaskPKeyIndex},
		{StateRTR, StateRTS}: {sendRetry | MaskSQPSN,
			MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer | MaskRateLimit},
		{StateRTS, StateRTS}: {0, MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer | MaskRateLimit},
		{StateRTS, StateSQD}: {0, MaskSQDAsyncNotify},
		{StateSQD, StateRTS}: {0, MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer | MaskRateLimit},
		{StateSQD, StateSQD}: {0, MaskPort | MaskAH | sendRetry | MaskMaxDestRdAtomic | altAttrs | MaskAccess |
			MaskPKeyIndex |
			MaskMinRNRTimer},
	},
	UC: {
		{StateReset, StateInit}: {MaskPKeyIndex | MaskPort | MaskAccess, 0},
		{StateInit, StateInit}:  {0, MaskPKeyIndex | MaskPort | MaskAccess},
		{StateInit, StateRTR}:   {pathAttrs, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{StateRTR, StateRTS}:    {MaskSQPSN, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateRTS, StateRTS}:    {0, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateRTS, StateSQD}:    {0, MaskSQDAsyncNotify},
		{StateSQD, StateRTS}:    {0, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateSQD, StateSQD}:    {0, MaskAH | altAttrs | MaskAccess | MaskPKeyIndex},
		{StateSQE, StateRTS}:    {0, MaskCurState | MaskAccess},
	},
	UD: {
		{StateReset, StateInit}: {MaskPKeyIndex | MaskPort | MaskQKey, 0},
		{StateInit, StateInit}:  {0, MaskPKeyIndex | MaskPort | MaskQKey},
		{StateInit, StateRTR}:   {0, MaskPKeyIndex | MaskQKey},
		{StateRTR, StateRTS}:    {MaskSQPSN, MaskCurState | MaskQKey | MaskRateLimit},
		{StateRTS, StateRTS}:    {0, MaskCurState | MaskQKey | MaskRateLimit},
		{StateRTS, StateSQD}:    {0, MaskSQDAsyncNotify},
		{StateSQD, StateRTS}:    {0, MaskCurState | MaskQKey | MaskRateLimit},
		{StateSQD, StateSQD}:    {0, MaskPKeyIndex | MaskQKey},
		{StateSQE, StateRTS}:    {0, MaskCurState | MaskQKey},
	},
	XRCIni: {
		{StateReset, StateInit}: {MaskPKeyIndex | MaskPort | MaskAccess, 0},
		{StateInit, StateInit}:  {0, MaskPKeyIndex | MaskPort | MaskAccess},
		{StateInit, StateRTR}:   {pathAttrs, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{StateRTR, StateRTS}:    {sendRetry | MaskSQPSN, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateRTS, StateRTS}:    {0, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateRTS, StateSQD}:    {0, MaskSQDAsyncNotify},
		{StateSQD, StateRTS}:    {0, MaskCurState | altAttrs | MaskAccess | MaskRateLimit},
		{StateSQD, StateSQD}:    {0, MaskPort | MaskAH | sendRetry | altAttrs | MaskAccess | MaskPKeyIndex},
	},
	XRCTgt: {
		{StateReset, StateInit}: {MaskPKeyIndex | MaskPort | MaskAccess, 0},
		{StateInit, StateInit}:  {0, MaskPKeyIndex | MaskPort | MaskAccess},
		{StateInit, StateRTR}: {pathAttrs | MaskMaxDestRdAtomic | MaskMinRNRTimer,
			MaskAltPath | MaskAccess | MaskPKeyIndex},
		{StateRTR, StateRTS}: {MaskTimeout | MaskSQPSN, MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer},
		{StateRTS, StateRTS}: {0, MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer},
		{StateRTS, StateSQD}: {0, MaskSQDAsyncNotify},
		{StateSQD, StateRTS}: {0, MaskCurState | altAttrs | MaskAccess | MaskMinRNRTimer},
		{StateSQD, StateSQD}: {0, MaskPort | MaskAH | MaskTimeout | MaskMaxDestRdAtomic | altAttrs | MaskAccess |
			MaskPKeyIndex |
			MaskMinRNRTimer},
	},
}

// checkTransition reports whether a queue pair may be modified so: driver.CheckTransition.
func checkTransition(t QPType, cur QPState, attr *QPAttr, mask QPMask) (QPState, error) {
	bad := func(format string, a ...any) (QPState, error) {
		return cur, opErr("modify_qp", ErrInvalid, fmt.Sprintf(format, a...))
	}
	if mask&MaskCurState != 0 && attr.CurState != cur {
		return bad("CurState is %v, but the queue pair is in %v", attr.CurState, cur)
	}
	next := cur
	if mask&MaskState != 0 {
		next = attr.State
	}
	if mask&MaskCap != 0 {
		return cur, opErr("modify_qp", ErrNotSupported, "queues cannot be resized (attribute Cap)")
	}
	given := mask &^ (MaskState | MaskCurState)
	if next == StateReset || next == StateError {
		if given != 0 {
			return bad("%v to %v takes no attributes, but has %v", cur, next, given)
		}
		return next, nil
	}
	tr, ok := transitions[t][step{cur, next}]
	if !ok {
		return bad("%v queue pairs cannot go from %v to %v", t, cur, next)
	}
	if missing := tr.required &^ mask; missing != 0 {
		return bad("%v to %v of %v needs %v", cur, next, t, missing)
	}
	if extra := given &^ (tr.required | tr.optional); extra != 0 {
		return bad("%v to %v of %v does not allow %v", cur, next, t, extra)
	}
	if mask&altAttrs != 0 {
		return cur, opErr("modify_qp", ErrNotSupported, fmt.Sprintf("no alternate paths (attribute %v)", mask&altAttrs))
	}
	if mask&MaskRateLimit != 0 {
		return cur, opErr("modify_qp", ErrNotSupported, "sending is not paced (attribute RateLimit)")
	}
	if name, why := outOfRange(attr, mask); name != "" {
		return bad("%s %s", name, why)
	}
	return next, nil
}

// outOfRange names the first attribute whose value the specification does not define.
func outOfRange(a *QPAttr, mask QPMask) (name, why string) {
	const max24 = 1<<24 - 1
	for _, c := range []struct {
		mask QPMask
		name string
		ok   bool
		why  string
	}{
		{MaskState, "State", a.State <= StateError, "is no state"},
		{MaskPathMTU, "PathMTU", a.PathMTU.Valid(), "must be MTU256 to MTU4096"},
		{MaskTimeout, "Timeout", a.Timeout < 32, "has 5 bits: 0 to 31"},
		{MaskRetryCount, "RetryCount", a.RetryCount < 8, "has 3 bits: 0 to 7"},
		{MaskRNRRetry, "RNRRetry", a.RNRRetry < 8, "has 3 bits: 0 to 7"},
		{MaskMinRNRTimer, "MinRNRTimer", a.MinRNRTimer < 32, "has 5 bits: 0 to 31"},
		{MaskRQPSN, "RQPSN", a.RQPSN <= max24, "has 24 bits"},
		{MaskSQPSN, "SQPSN", a.SQPSN <= max24, "has 24 bits"},
		{MaskDestQPN, "DestQPN", a.DestQPN <= max24, "has 24 bits"},
		{MaskAccess, "Access",
			a.Access&^(LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic|FlushGlobal|FlushPersistent) == 0,
			"of a queue pair is of LocalWrite, RemoteWrite, RemoteRead, RemoteAtomic and Flush"},
	} {
		if mask&c.mask != 0 && !c.ok {
			return c.name, c.why
		}
	}
	return "", ""
}
