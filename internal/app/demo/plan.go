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
		return effort{messages: 300, streams: 10, window: 4} // keep the demo short
	}
	if runtime.NumCPU() == 1 {
		return effort{messages: 100, streams: 20, window: 16} // two polling processes take turns of milliseconds
	}
	return effort{messages: 1000, streams: 20, window: 16}
}

const (
	smallSize   = 64
	streamSize  = 1 << 20
	minStreams  = 3                      // minimum repetitions of a stream for a figure
	burstLength = 50                     // round trips between looks at the clock
	stepTime    = 400 * time.Millisecond // limit for an operation, and for TCP beside it
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
		lone(verbs.Send, verbs.RC, smallSize),
		lone(verbs.SendImm, verbs.RC, smallSize),
		lone(verbs.Write, verbs.RC, smallSize),
		lone(verbs.WriteImm, verbs.RC, smallSize),
		lone(verbs.Read, verbs.RC, smallSize),
		lone(verbs.CompareSwap, verbs.RC, 8),
		lone(verbs.FetchAdd, verbs.RC, 8),
		lone(verbs.Send, verbs.UC, smallSize),
		lone(verbs.Write, verbs.UC, smallSize),
		lone(verbs.Send, verbs.UD, smallSize),
		stream(verbs.Send),
		stream(verbs.Write),
		stream(verbs.Read),
	}
	return slices.DeleteFunc(all, func(st step) bool { return !can(&st) })
}
