// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkNotified writes, and tells the target of each WRITE: by a SEND behind it, or by immediate data. The target
// polls in a goroutine of its own.
func BenchmarkNotified(b *testing.B) {
	for _, how := range []string{"send", "imm"} {
		for _, n := range []int{8, 1 << 10, 4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", how, n), func(b *testing.B) { benchmarkNotified(b, how == "imm", n) })
		}
	}
}

func benchmarkNotified(b *testing.B, imm bool, n int) {
	initiator, target := connect(b, 1<<21)
	const window = 32
	recvs := receivesOf(target, window, 64)
	target.give(b, recvs)
	target.give(b, recvs)
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var wcs [window]verbs.WC
		got := 0
		for !stop.Load() {
			for got += target.cq.Poll(wcs[:]); got >= window; got -= window {
				target.give(b, recvs)
			}
		}
	}()
	write := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{initiator.mr.SGE(0, n)}, Remote: target.mr.Remote()}
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{initiator.mr.SGE(0, 8)}}
	if imm {
		write.Op = verbs.OpWriteImm
	}
	b.SetBytes(int64(n))
	posted := 0
	for b.Loop() {
		last := &send
		if imm {
			last = &write
		}
		last.Flags = 0
		if posted++; posted%(window/2) == 0 {
			last.Flags = verbs.Signaled
		}
		if !imm {
			if err := initiator.qp.PostSend(&write); err != nil {
				b.Fatal(err)
			}
		}
		if err := initiator.qp.PostSend(last); err != nil {
			b.Fatal(err)
		}
		if last.Flags != 0 && posted > window/2 {
			initiator.done(b)
		}
	}
	stop.Store(true)
	<-ended
}
