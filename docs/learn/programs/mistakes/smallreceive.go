// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// smallReceive sends more bytes than the receive has room for.
func smallReceive() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("a message of 24 bytes..."), b.Register(16, verbs.LocalWrite)
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(theirs)}))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: kit.All(mine)}))
	fmt.Println("receiver:", b.Wait().Status)
	fmt.Println("sender:", a.Wait().Status)
}
