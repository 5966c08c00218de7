// SPDX-License-Identifier: Apache-2.0

// First connects two queue pairs by hand, step by step, and sends one message.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one end of the connection. In real life each end is a process of its own.
type side struct {
	dev *verbs.Device
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
	at  verbs.Endpoint
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(device string, buf []byte) (s side) {
	s.dev = must(ramjet.Open(device))
	pd := must(s.dev.AllocPD())
	s.mr = must(pd.RegMR(buf, verbs.LocalWrite))
	s.cq = must(s.dev.CreateCQ(16, nil))
	s.qp = must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq}))
	s.at = must(s.qp.Endpoint(0))
	return s
}

// wait takes one completion.
func (s *side) wait() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wc [1]verbs.WC
	must(s.cq.Wait(ctx, wc[:]))
	return wc[0]
}

func main() {
	a := open("roce:127.0.71.3", []byte("hello"))
	b := open("roce:127.0.71.4", make([]byte, 64))
	defer a.dev.Close()
	defer b.dev.Close()
	fmt.Println("a new queue pair is in", a.qp.State())

	check(a.qp.Connect(a.at, b.at, nil))
	check(b.qp.Connect(b.at, a.at, nil))
	fmt.Println("a connected one is in", a.qp.State())

	check(b.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{b.mr.SGE(0, 64)}}))
	check(a.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{a.mr.SGE(0, 5)}}))

	wc := b.wait()
	fmt.Printf("receiver: work request %d, %v, %v, %d bytes\n", wc.ID, wc.Op, wc.Status, wc.ByteLen)
	wc = a.wait()
	fmt.Printf("sender: work request %d, %v, %v\n", wc.ID, wc.Op, wc.Status)

	// In the error state whatever is posted comes back at once.
	check(b.qp.PostRecv(&verbs.RecvWR{ID: 3, SGL: []verbs.SGE{b.mr.SGE(0, 64)}}))
	check(b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	wc = b.wait()
	fmt.Printf("receiver in %v: work request %d, %v\n", b.qp.State(), wc.ID, wc.Status)
}
