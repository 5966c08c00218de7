// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// fullQueue posts signaled WRITEs and takes none of the completions.
func fullQueue() {
	a, b := kit.Open("roce:127.0.71.1", 16), kit.Open("roce:127.0.71.2", 16)
	kit.Connect(a, b, nil)
	mine, theirs := a.Put("data"), b.Register(64, verbs.LocalWrite|verbs.RemoteWrite)
	for range a.CQ.Capacity() + 1 {
		kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: kit.All(mine),
			Remote: theirs.Remote()}))
	}
	for end := time.Now().Add(kit.Patience); a.CQ.Err() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the program is busy with something else
	}
	fmt.Println("completion queue:", a.CQ.Err())
	fmt.Println("its queue pair:", a.QP.State())
}
