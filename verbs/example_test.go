// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// side is a device with a queue pair and 64 bytes of memory.
type side struct {
	dev *verbs.Device
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
}

// connect makes two sides.
func connect() (sides [2]side) {
	var at [2]verbs.Endpoint
	for i := range sides {
		s := &sides[i]
		s.dev = must(roce.Open(loopbackAddress(), nil))
		pd := must(s.dev.AllocPD())
		s.cq = must(s.dev.CreateCQ(16, nil))
		s.mr = must(pd.AllocMR(64, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic))
		s.qp = must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq}))
		at[i] = must(s.qp.Endpoint(0)) // tell the peer, by any means
	}
	for i := range sides {
		if err := sides[i].qp.Connect(at[i], at[1-i], nil); err != nil {
			log.Fatal(err)
		}
	}
	return sides
}

// A target learns of a WRITE by waiting for its memory to change.
func ExampleMR_WaitUint64() {
	ctx := context.Background()
	sides := connect()
	a, b := &sides[0], &sides[1]
	defer a.dev.Close()
	defer b.dev.Close()

	binary.NativeEndian.PutUint64(a.mr.Bytes(), 42)
	err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: b.mr.Remote()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(must(b.mr.WaitUint64(ctx, 0, 0)))
	// Output: 42
}

// A fetch-and-add returns the former value into local memory.
func ExampleQP_PostSend() {
	ctx := context.Background()
	sides := connect()
	a, b := &sides[0], &sides[1]
	defer a.dev.Close()
	defer b.dev.Close()

	binary.NativeEndian.PutUint64(b.mr.Bytes(), 40)
	wr := verbs.SendWR{ID: 7, Flags: verbs.Signaled}
	if err := a.qp.PostSend(wr.FetchAdd(b.mr.Remote(), 2, a.mr.SGE(0, 8))); err != nil {
		log.Fatal(err)
	}
	var wc [1]verbs.WC
	must(a.cq.Wait(ctx, wc[:]))
	fmt.Println("work request", wc[0].ID, wc[0].Op, wc[0].Status)
	fmt.Println(binary.NativeEndian.Uint64(a.mr.Bytes()), "before")
	b.mr.Do(func(p []byte) { fmt.Println(binary.NativeEndian.Uint64(p), "after") })
	// Output:
	// work request 7 FETCH_ADD success
	// 40 before
	// 42 after
}

// The address and rkey of a region, as text and as the bytes that fit into private data.
func ExampleRemote() {
	told := verbs.Remote{Addr: 0x7f6a1c000000, Key: 0x1a2b}
	text, _ := told.MarshalText()
	fmt.Printf("%s\n", text)

	b, _ := told.MarshalBinary()
	var heard verbs.Remote
	if err := heard.UnmarshalBinary(b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(b), "bytes,", heard.At(4096))
	// Output:
	// 0x7f6a1c000000:0x1a2b
	// 12 bytes, 0x7f6a1c001000:0x1a2b
}
