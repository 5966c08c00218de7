// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"strings"
	"testing"
)

var allStates = []QPState{StateReset, StateInit, StateRTR, StateRTS, StateSQD, StateSQE, StateError}

// good has values that every attribute may have.
func good(s QPState) QPAttr { return QPAttr{State: s, PathMTU: MTU1024, Port: 1} }

// TestTransitionsExist holds the states that can follow each other (IBTA 10.3.1).
func TestTransitionsExist(t *testing.T) {
	want := map[QPType]string{
		RC:     "RESET-INIT INIT-INIT INIT-RTR RTR-RTS RTS-RTS RTS-SQD SQD-RTS SQD-SQD",
		UC:     "RESET-INIT INIT-INIT INIT-RTR RTR-RTS RTS-RTS RTS-SQD SQD-RTS SQD-SQD SQE-RTS",
		UD:     "RESET-INIT INIT-INIT INIT-RTR RTR-RTS RTS-RTS RTS-SQD SQD-RTS SQD-SQD SQE-RTS",
		XRCIni: "RESET-INIT INIT-INIT INIT-RTR RTR-RTS RTS-RTS RTS-SQD SQD-RTS SQD-SQD",
		XRCTgt: "RESET-INIT INIT-INIT INIT-RTR RTR-RTS RTS-RTS RTS-SQD SQD-RTS SQD-SQD",
	}
	for typ, steps := range want {
		for _, from := range allStates {
			for _, to := range allStates {
				attr := good(to)
				mask := MaskState | transitions[typ][step{from, to}].required
				got, err := checkTransition(typ, from, &attr, mask)
				name := from.String() + "-" + to.String()
				if to == StateReset || to == StateError || strings.Contains(" "+steps+" ", " "+name+" ") {
					if err != nil || got != to {
						t.Errorf("%v %s: %v, %v", typ, name, got, err)
					}
					continue
				}
				if !errors.Is(err, ErrInvalid) || got != from ||
					!strings.Contains(err.Error(), "from "+from.String()+" to "+to.String()) {
					t.Errorf("%v %s: %v, %v", typ, name, got, err)
				}
			}
		}
	}
}

// TestTransitionAttributes holds, for each transition, that each required attribute is
// missed by name, each optional one may be there, and each other one is refused by name.
func TestTransitionAttributes(t *testing.T) {
	for typ, steps := range transitions {
		for s, tr := range steps {
			for bit := MaskAccess; bit <= MaskRateLimit; bit <<= 1 {
				attr := good(s.to)
				mask := MaskState | tr.required
				var want error
				switch {
				case bit == MaskCap, bit&(altAttrs|MaskRateLimit)&(tr.required|tr.optional) != 0:
					want, mask = ErrNotSupported, mask|bit
				case tr.required&bit != 0:
					want, mask = ErrInvalid, mask&^bit
				case tr.optional&bit != 0:
					mask |= bit
				default:
					want, mask = ErrInvalid, mask|bit
				}
				got, err := checkTransition(typ, s.from, &attr, mask)
				if want == nil {
					if err != nil || got != s.to {
						t.Errorf("%v %v to %v with %v: %v", typ, s.from, s.to, bit, err)
					}
					continue
				}
				if !errors.Is(err, want) || got != s.from || !strings.Contains(err.Error(), bit.String()) {
					t.Errorf("%v %v to %v, %v: %v, %v", typ, s.from, s.to, bit, got, err)
				}
			}
		}
	}
}

// TestTransitionTable holds rows of the specification's tables as they stand there.
func TestTransitionTable(t *testing.T) {
	for _, c := range []struct {
		typ      QPType
		from, to QPState
		required string
	}{
		{RC, StateReset, StateInit, "Access|PKeyIndex|Port"},
		{RC, StateInit, StateRTR, "AH|PathMTU|RQPSN|MinRNRTimer|MaxDestRdAtomic|DestQPN"},
		{RC, StateRTR, StateRTS, "Timeout|RetryCount|RNRRetry|MaxRdAtomic|SQPSN"},
		{UC, StateInit, StateRTR, "AH|PathMTU|RQPSN|DestQPN"},
		{UC, StateRTR, StateRTS, "SQPSN"},
		{UD, StateReset, StateInit, "PKeyIndex|Port|QKey"},
		{UD, StateInit, StateRTR, "none"},
		{UD, StateRTR, StateRTS, "SQPSN"},
		{XRCIni, StateInit, StateRTR, "AH|PathMTU|RQPSN|DestQPN"},
		{XRCIni, StateRTR, StateRTS, "Timeout|RetryCount|RNRRetry|MaxRdAtomic|SQPSN"},
		{XRCTgt, StateInit, StateRTR, "AH|PathMTU|RQPSN|MinRNRTimer|MaxDestRdAtomic|DestQPN"},
		{XRCTgt, StateRTR, StateRTS, "Timeout|SQPSN"},
	} {
		if got := transitions[c.typ][step{c.from, c.to}].required.String(); got != c.required {
			t.Errorf("%v %v to %v requires %s, want %s", c.typ, c.from, c.to, got, c.required)
		}
	}
}

func TestCurState(t *testing.T) {
	attr := good(StateRTS)
	attr.CurState = StateRTR
	if _, err := checkTransition(RC, StateRTS, &attr, MaskState|MaskCurState); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "CurState") {
		t.Error(err)
	}
	attr.CurState = StateRTS
	if _, err := checkTransition(RC, StateRTS, &attr, MaskState|MaskCurState); err != nil {
		t.Error(err)
	}
}

func TestAttributesOfResetAndErr(t *testing.T) {
	for _, to := range []QPState{StateReset, StateError} {
		attr := good(to)
		if _, err := checkTransition(RC, StateRTS, &attr, MaskState|MaskPort); !errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), "Port") {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestOutOfRange(t *testing.T) {
	for _, c := range []struct {
		name string
		mask QPMask
		bad  QPAttr
	}{
		{"State", MaskState, QPAttr{State: StateError + 1}},
		{"PathMTU", MaskPathMTU, QPAttr{}},
		{"PathMTU", MaskPathMTU, QPAttr{PathMTU: MTU4096 + 1}},
		{"Timeout", MaskTimeout, QPAttr{Timeout: 32}},
		{"RetryCount", MaskRetryCount, QPAttr{RetryCount: 8}},
		{"RNRRetry", MaskRNRRetry, QPAttr{RNRRetry: 8}},
		{"MinRNRTimer", MaskMinRNRTimer, QPAttr{MinRNRTimer: 32}},
		{"RQPSN", MaskRQPSN, QPAttr{RQPSN: 1 << 24}},
		{"SQPSN", MaskSQPSN, QPAttr{SQPSN: 1 << 24}},
		{"DestQPN", MaskDestQPN, QPAttr{DestQPN: 1 << 24}},
		{"Access", MaskAccess, QPAttr{Access: MWBind}},
	} {
		if name, why := outOfRange(&c.bad, c.mask); name != c.name || why == "" {
			t.Errorf("%s: %q %q", c.name, name, why)
		}
		if name, _ := outOfRange(&c.bad, 0); name != "" {
			t.Errorf("%s is looked at though the mask does not name it", name)
		}
	}
	attr := QPAttr{State: StateError, PathMTU: MTU4096, Timeout: 31, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 31,
		RQPSN: 1<<24 - 1, SQPSN: 1<<24 - 1, DestQPN: 1<<24 - 1,
		Access: RemoteWrite | RemoteRead | RemoteAtomic | LocalWrite | FlushGlobal |
			FlushPersistent}
	if name, why := outOfRange(&attr, ^QPMask(0)); name != "" {
		t.Errorf("%s %s", name, why)
	}
}
