// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// unsignaled posts SENDs that would all complete silently. The receiver is slow, so the queue fills. There
// is no completion to wait for.
func unsignaled() {
	a, _ := kit.Pair(nil)
	mine := a.Put("data")
	for n := range 1000 {
		if err := a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: kit.All(mine)}); err != nil {
			fmt.Println("after", n, "SENDs:", err)
			break
		}
	}
	fmt.Println("completions:", a.CQ.Poll(make([]verbs.WC, 1)))
}
