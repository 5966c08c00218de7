// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// unaligned adds to a counter whose address is no multiple of 8.
func unaligned() {
	a, b := kit.Pair(nil)
	old, counters := a.Register(8, verbs.LocalWrite), kit.Must(b.PD.AllocMR(64, verbs.LocalWrite|verbs.RemoteAtomic))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: kit.All(old),
		Remote: counters.Remote().At(4)}))
	fmt.Println("sender:", a.Wait().Status)
}
