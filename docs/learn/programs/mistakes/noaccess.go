// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// noAccess writes into a region that only allows peers to read.
func noAccess() {
	a, b := kit.Pair(nil)
	mine, theirs := a.Put("data"), b.Register(64, verbs.LocalWrite|verbs.RemoteRead)
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: kit.All(mine), Remote: theirs.Remote()}))
	fmt.Println("sender:", a.Wait().Status)

	// The same at home: a receive into memory that the device may not write.
	a, b = kit.Open("roce:127.0.71.1", 16), kit.Open("roce:127.0.71.2", 16)
	kit.Connect(a, b, nil)
	readOnly := kit.Must(b.PD.RegMR(make([]byte, 64), 0))
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(readOnly)}))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("data")}))
	fmt.Println("receiver:", b.Wait().Status)
}
