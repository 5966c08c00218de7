// SPDX-License-Identifier: Apache-2.0

// Memory registers memory, and shows what a peer may do with a key.
package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	a, b := kit.Pair(nil)
	defer a.Dev.Close()
	defer b.Dev.Close()

	shared := kit.Must(b.PD.RegMR([]byte("any bytes of the program"), verbs.RemoteRead))
	fmt.Println("a region of", shared.Len(), "bytes")
	fmt.Println("what the peer is told:", shared.Remote())

	mine := a.Register(shared.Len(), verbs.LocalWrite)
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
		SGL: kit.All(mine), Remote: shared.Remote()}))
	fmt.Printf("READ: %v, %q\n", a.Wait().Status, kit.Text(mine, mine.Len()))

	kit.Check(shared.Close()) // deregisters: the key is void from now on
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
		SGL: kit.All(mine), Remote: shared.Remote()}))
	fmt.Println("READ after the region is closed:", a.Wait().Status)
}
