// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"runtime"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// effort is how much the demo does.
type effort struct {
	messages int // round trips of a row
	streams  int // repetitions of a stream
	window   int // messages of a stream
}

func (d *Demo) effort() effort {
	if d.Recorded {
		return effort{messages: 50, streams: 1, window: 4} // a file that stays readable
	}
	if d.Kind.Slow {
		return effort{messages: 300, streams: 8, window: 4} // keep the demo short
	}
	if runtime.NumCPU() == 1 {
		return effort{messages: 100, streams: 8, window: 16} // two polling processes take turns of milliseconds
	}
	return effort{messages: 500, streams: 8, window: 16}
}

const (
	smallSize   = 64
	streamSize  = 1 << 20
	burstLength = 50                     // round trips between looks at the clock
	stepTime    = 100 * time.Millisecond // limit for an operation, however busy the machine is
	speedTime   = 200 * time.Millisecond // limit for a figure of speed
	late        = 2 * time.Second        // after which there is less time for both
)

// rows are the steps of the demo, in order, that a device supports.
func (e effort) rows(can func(*step) bool) []step {
	lone := func(op verbs.SendOp, qp verbs.QPType, size int) step {
		return step{Op: op, QP: qp, Size: size, Count: min(burstLength, e.messages)}
	}
	stream := func(op verbs.SendOp) step {
		return step{Op: op, QP: verbs.RC, Size: streamSize, Count: e.window, Stream: true}
	}
	all := []step{
		lone(verbs.OpSend, verbs.RC, smallSize),
		lone(verbs.OpSendImm, verbs.RC, smallSize),
		lone(verbs.OpWrite, verbs.RC, smallSize),
		lone(verbs.OpWriteImm, verbs.RC, smallSize),
		lone(verbs.OpRead, verbs.RC, smallSize),
		lone(verbs.OpCompareSwap, verbs.RC, 8),
		lone(verbs.OpFetchAdd, verbs.RC, 8),
		lone(verbs.OpSend, verbs.UC, smallSize),
		lone(verbs.OpWrite, verbs.UC, smallSize),
		lone(verbs.OpSend, verbs.UD, smallSize),
		stream(verbs.OpSend),
		stream(verbs.OpWrite),
		stream(verbs.OpRead),
	}
	return slices.DeleteFunc(all, func(st step) bool { return !can(&st) })
}
