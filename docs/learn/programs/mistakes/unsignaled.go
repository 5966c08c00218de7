// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// unsignaled posts WRITEs that all complete silently, until the send queue is full.
func unsignaled() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("data"), b.Register(64, verbs.LocalWrite|verbs.RemoteWrite)
	for n := range 1000 {
		err := a.QP.PostSend(&verbs.SendWR{Op: verbs.Write, SGL: kit.All(mine), Remote: theirs.Remote()})
		if err != nil {
			fmt.Println("after", n, "WRITEs:", err)
			return
		}
	}
}
