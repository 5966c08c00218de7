// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// earlyReuse changes a buffer after it has posted it, and before the completion. Here the receiver is late, so the
// message is sent again: with the bytes that the buffer holds by then.
func earlyReuse() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("pay 10"), b.Register(64, verbs.LocalWrite)
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: kit.All(mine)}))
	refused(a, 1)
	copy(mine.Bytes(), "pay 99") // too early: the buffer belongs to the device
	refused(a, 2)
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(theirs)}))
	fmt.Printf("receiver: %v, %q\n", b.Wait().Status, kit.Text(theirs, mine.Len()))
}

// refused waits until the peer has refused the message n times more, as it has posted no receive.
func refused(s *kit.Side, n uint64) {
	before := kit.Must(s.QP.Stats()).RNRs
	for end := time.Now().Add(kit.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if kit.Must(s.QP.Stats()).RNRs >= before+n {
			return
		}
	}
}
