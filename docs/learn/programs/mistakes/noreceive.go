// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// noReceive sends to a peer that has posted no receive.
func noReceive() {
	a, _ := kit.Pair(&verbs.ConnectOptions{RNRRetry: 2})
	mine := a.Put("data")
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: kit.All(mine)}))
	fmt.Println("sender:", a.Wait().Status)
}
