// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// modifyFacts are the attributes that ModifyQP takes besides the attributes that a change of state needs, which
// State/RC and its neighbours hold (IBTA 11.2.5.2).
var modifyFacts = []fact{
	{name: "Modify/RC/RESET to INIT", find: optional(verbs.RC, verbs.StateReset, verbs.StateInit), want: "CurState"},
	{name: "Modify/RC/INIT to INIT", find: optional(verbs.RC, verbs.StateInit, verbs.StateInit),
		want: "CurState Access PKeyIndex Port"},
	{name: "Modify/RC/INIT to RTR", find: optional(verbs.RC, verbs.StateInit, verbs.StateRTR),
		want: "CurState Access PKeyIndex"},
	{name: "Modify/RC/RTR to RTS", find: optional(verbs.RC, verbs.StateRTR, verbs.StateRTS),
		want: "CurState Access MinRNRTimer"},
	{name: "Modify/RC/RTS to RTS", find: optional(verbs.RC, verbs.StateRTS, verbs.StateRTS),
		want: "CurState Access MinRNRTimer"},
	{name: "Modify/RC/RTS to SQD", find: optional(verbs.RC, verbs.StateRTS, verbs.StateSQD),
		want: "CurState SQDAsyncNotify"},
	{name: "Modify/RC/SQD to SQD", find: optional(verbs.RC, verbs.StateSQD, verbs.StateSQD),
		want: "CurState Access PKeyIndex Port AH Timeout RetryCount RNRRetry MaxRdAtomic MinRNRTimer MaxDestRdAtomic"},
	{name: "Modify/RC/SQD to RTS", find: optional(verbs.RC, verbs.StateSQD, verbs.StateRTS),
		want: "CurState Access MinRNRTimer"},
	{name: "Modify/RC/RTS to ERR", find: optional(verbs.RC, verbs.StateRTS, verbs.StateError), want: "CurState"},
	{name: "Modify/UC/INIT to RTR", find: optional(verbs.UC, verbs.StateInit, verbs.StateRTR),
		want: "CurState Access PKeyIndex"},
	{name: "Modify/UC/RTR to RTS", find: optional(verbs.UC, verbs.StateRTR, verbs.StateRTS), want: "CurState Access"},
	{name: "Modify/UC/RTS to RTS", find: optional(verbs.UC, verbs.StateRTS, verbs.StateRTS), want: "CurState Access"},
	{name: "Modify/UC/SQD to RTS", find: optional(verbs.UC, verbs.StateSQD, verbs.StateRTS), want: "CurState Access"},
	{name: "Modify/UC/SQE to RTS", find: optional(verbs.UC, verbs.StateSQE, verbs.StateRTS), want: "CurState Access"},
	{name: "Modify/UD/INIT to RTR", find: optional(verbs.UD, verbs.StateInit, verbs.StateRTR),
		want: "CurState PKeyIndex QKey"},
	{name: "Modify/UD/RTR to RTS", find: optional(verbs.UD, verbs.StateRTR, verbs.StateRTS), want: "CurState QKey"},
	{name: "Modify/UD/RTS to RTS", find: optional(verbs.UD, verbs.StateRTS, verbs.StateRTS), want: "CurState QKey"},
	{name: "Modify/UD/SQD to RTS", find: optional(verbs.UD, verbs.StateSQD, verbs.StateRTS), want: "CurState QKey"},
	{name: "Modify/UD/SQE to RTS", find: optional(verbs.UD, verbs.StateSQE, verbs.StateRTS), want: "CurState QKey"},
}

func init() {
	for i := range modifyFacts {
		switch f := &modifyFacts[i]; {
		case strings.Contains(f.name, "/RC/"):
			f.needs = []Ability{Numbered}
		case strings.Contains(f.name, "/UC/"):
			f.needs = []Ability{Unreliable}
		default:
			f.needs = []Ability{Datagrams}
		}
	}
}

// optional returns the attributes that a change of state takes besides required ones.
func optional(typ verbs.QPType, from, to verbs.QPState) func(*T) string {
	needed := neededBy(typ, to)
	if to <= verbs.StateRTS && from != to-1 {
		needed = 0
	}
	return func(t *T) string {
		dev, _ := t.devices()
		e := t.newEnd(dev, setup{})
		var takes []string
		for bit := verbs.MaskCurState; bit <= verbs.MaskRateLimit; bit <<= 1 {
			if needed&bit != 0 {
				continue
			}
			qp := e.inState(typ, from, nil)
			attr := attributes(e.ep)
			attr.State, attr.CurState = to, from
			if qp.Modify(attr, verbs.MaskState|needed|bit) == nil {
				takes = append(takes, bit.String())
			}
			t.ok(qp.Close())
		}
		if takes == nil {
			return "nothing"
		}
		return strings.Join(takes, " ")
	}
}
