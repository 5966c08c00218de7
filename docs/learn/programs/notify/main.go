// SPDX-License-Identifier: Apache-2.0

// Notify shows how a target learns of a WRITE: by a flag that is written after the data, and by
// immediate data.
package main

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const size = 1 << 20 // of the data; the flag is the byte after it

func main() {
	a, b := kit.Pair(nil)
	defer a.Dev.Close()
	defer b.Dev.Close()
	mine := a.Register(size+1, verbs.LocalWrite)
	theirs := b.Register(size+1, verbs.LocalWrite|verbs.RemoteWrite)
	for i := range mine.Bytes() {
		mine.Bytes()[i] = 1
	}

	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	kit.Check(a.QP.PostSendAll([]verbs.SendWR{
		{Op: verbs.OpWrite, SGL: []verbs.SGE{mine.SGE(0, size)}, Remote: theirs.Remote()},
		{Op: verbs.OpWrite, SGL: []verbs.SGE{mine.SGE(size, 1)}, Remote: theirs.Remote().At(size)},
	}))
	kit.Must(theirs.WaitByte(ctx, size, 0))
	fmt.Println("the flag is set:", ones(theirs), "of", size, "bytes are there")

	theirs.Do(func(b []byte) { clear(b) })
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{ID: 9}))
	kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWriteImm, SGL: []verbs.SGE{mine.SGE(0, size)},
		Remote: theirs.Remote(), Imm: 42}))
	wc := b.Wait()
	fmt.Printf("%v, immediate data %d: %d of %d bytes are there\n", wc.Op, wc.Imm, ones(theirs), size)
}

// ones counts the bytes of the data that have come.
func ones(mr *verbs.MR) (n int) {
	mr.Do(func(b []byte) {
		for _, v := range b[:size] {
			n += int(v)
		}
	})
	return n
}
