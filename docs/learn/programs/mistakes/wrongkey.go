// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// wrongKey writes with a key that the peer never gave out.
func wrongKey() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("data"), b.Register(64, verbs.LocalWrite|verbs.RemoteWrite)
	to := theirs.Remote()
	to.Key ^= 0x100
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: kit.All(mine), Remote: to}))
	fmt.Println("sender:", a.Wait().Status)
	fmt.Println("its queue pair:", a.QP.State())
	fmt.Println("the target knows:", b.QP.Failure())
}
