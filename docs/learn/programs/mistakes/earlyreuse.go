// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// earlyReuse changes a buffer after it has posted it, and before the completion. Here the receiver is
// late, so the message is sent again: with what the buffer holds by then.
func earlyReuse() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("pay 10"), b.Register(64, verbs.LocalWrite)
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.Send, SGL: kit.All(mine)}))
	for end := time.Now().Add(kit.Patience); kit.Must(a.QP.Stats()).RNRs == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	copy(mine.Bytes(), "pay 99") // too early: the buffer belongs to the device
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(theirs)}))
	fmt.Printf("receiver: %v, %q\n", b.Wait().Status, kit.Text(theirs, mine.Len()))
}
