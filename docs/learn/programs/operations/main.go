// SPDX-License-Identifier: Apache-2.0

// Operations moves one text in each of the four ways, and says which side had to do something. With the name of a file
// it records the packets there.
package main

import (
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	var opts []ramjet.Option
	if len(os.Args) == 2 {
		file := kit.Must(os.Create(os.Args[1]))
		record := kit.Must(trace.NewWriter(file, "operations"))
		defer func() { kit.Check(record.Close()); kit.Check(file.Close()) }()
		opts = append(opts, ramjet.WithTrace(record))
	}
	a, b := kit.Open("roce:127.0.71.1", 256, opts...), kit.Open("roce:127.0.71.2", 256, opts...)
	defer a.Dev.Close()
	defer b.Dev.Close()
	kit.Connect(a, b, nil)
	mine := a.Put("data")
	theirs := b.Register(64, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)

	// SEND: the receiver says where.
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(theirs)}))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: kit.All(mine)}))
	fmt.Println("SEND:", a.Wait().Status, "- the receiver posted a receive and got", b.Wait().Op)

	// WRITE: the sender says where. The target's program is not asked.
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: kit.All(mine),
		Remote: theirs.Remote().At(16)}))
	fmt.Println("WRITE:", a.Wait().Status, "- completions at the target:", b.CQ.Poll(make([]verbs.WC, 1)))

	// WRITE with immediate: the sender says where, and the target is told.
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{}))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWriteImm, Flags: verbs.Signaled, SGL: kit.All(mine),
		Remote: theirs.Remote().At(32), Imm: 7}))
	status, told := a.Wait().Status, b.Wait()
	fmt.Println("WRITE with immediate:", status, "- the target got", told.Op, "with", told.Imm)

	// READ: the reader says where, in both memories.
	back := a.Register(4, verbs.LocalWrite)
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: kit.All(back),
		Remote: theirs.Remote().At(32)}))
	fmt.Println("READ:", a.Wait().Status, "-", kit.Text(back, 4))
}
