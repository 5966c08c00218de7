// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// middleByte waits for a byte in the middle of a WRITE, and believes that all of it has come.
func middleByte() {
	const size = 16 << 20
	a, b := kit.Pair(nil)
	mine, theirs := a.Register(size, verbs.LocalWrite), b.Register(size, verbs.LocalWrite|verbs.RemoteWrite)
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	for round := byte(1); round < 100; round++ {
		for i := range mine.Bytes() {
			mine.Bytes()[i] = round
		}
		kit.Check(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: kit.All(mine),
			Remote: theirs.Remote()}))
		kit.Must(theirs.WaitByte(ctx, size/2, round-1))
		missing := 0
		theirs.Do(func(b []byte) {
			for _, v := range b {
				if v != round {
					missing++
				}
			}
		})
		a.Wait()
		if missing > 0 {
			fmt.Println("the middle byte was there,", missing, "bytes of the same WRITE were not")
			return
		}
	}
}
