// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Params are the attributes of a connection; both sides get the same.
type Params struct {
	MTU         verbs.MTU
	Timeout     uint8 // as in QPAttr
	RetryCount  uint8
	RNRRetry    uint8
	MinRNRTimer uint8
	RdAtomic    uint8 // READs and atomics under way, each side
	QKey        verbs.QKey
}

// Defaults are parameters that survive bad networks.
var Defaults = Params{MTU: verbs.MTU1024, Timeout: 14, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 5, RdAtomic: 4, QKey: 0x11111111}

const allAccess = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal | verbs.FlushPersistent

// Join takes two queue pairs that match from RESET to RTS, connected to each other.
func Join(a, b *QP, p Params) error {
	psnA, psnB := verbs.PSN(a.Host.Net.Rand.Uint32N(1<<24)), verbs.PSN(b.Host.Net.Rand.Uint32N(1<<24))
	if a.Host.Net.Rand.IntN(2) == 0 { // soon around the corner
		psnA, psnB = 1<<24-5, 1<<24-20
	}
	if err := a.toRTS(b, p, psnA, psnB); err != nil {
		return err
	}
	return b.toRTS(a, p, psnB, psnA)
}

func (q *QP) toRTS(peer *QP, p Params, sendPSN, recvPSN verbs.PSN) error {
	attr := verbs.QPAttr{Port: 1, Access: allAccess, QKey: p.QKey, PathMTU: p.MTU, DestQPN: peer.Num, RQPSN: recvPSN, SQPSN: sendPSN,
		AH: verbs.AHAttr{DGID: peer.Host.GID()}, MaxDestRdAtomic: p.RdAtomic, MaxRdAtomic: p.RdAtomic, MinRNRTimer: p.MinRNRTimer,
		Timeout: p.Timeout, RetryCount: p.RetryCount, RNRRetry: p.RNRRetry}
	path := verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN
	responder := verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
	retry := verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic
	masks := [3]verbs.QPMask{verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess, path | responder, verbs.MaskSQPSN | retry}
	switch q.Type {
	case verbs.UC:
		masks[1], masks[2] = path, verbs.MaskSQPSN
	case verbs.UD:
		masks = [3]verbs.QPMask{verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey, 0, verbs.MaskSQPSN}
	case verbs.XRCIni:
		masks[1] = path
	case verbs.XRCTgt:
		masks[2] = verbs.MaskSQPSN | verbs.MaskTimeout
	}
	for i, state := range [3]verbs.QPState{verbs.Init, verbs.RTR, verbs.RTS} {
		attr.State = state
		if err := q.Modify(&attr, masks[i]|verbs.MaskState); err != nil {
			return fmt.Errorf("sim: to %v: %w", state, err)
		}
	}
	return nil
}
