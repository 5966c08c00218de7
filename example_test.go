// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one end of a connection.
type side struct {
	mr *verbs.MR
	cq *verbs.CQ
	qp *verbs.QP
	ep verbs.Endpoint
}

func open(name string, buf []byte) (s side) {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dev, err := ramjet.Open(name)
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	s.mr, err = pd.RegMR(buf, verbs.LocalWrite|verbs.RemoteWrite)
	check(err)
	s.cq, err = dev.CreateCQ(16, nil)
	check(err)
	s.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	check(err)
	s.ep, err = s.qp.Endpoint(0)
	check(err)
	return s
}

// Two devices of one process, and a WRITE from one into the memory of the other.
func Example() {
	a := open("roce:"+loopbackAddress(), []byte("hello, remote memory"))
	b := open("roce:"+loopbackAddress(), make([]byte, 64))
	if err := a.qp.Connect(a.ep, b.ep, nil); err != nil {
		log.Fatal(err)
	}
	if err := b.qp.Connect(b.ep, a.ep, nil); err != nil {
		log.Fatal(err)
	}

	wr := verbs.SendWR{Flags: verbs.Signaled}
	if err := a.qp.PostSend(wr.Write(b.mr.Remote(), a.mr.SGE(0, a.mr.Len()))); err != nil {
		log.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := a.cq.Wait(context.Background(), wc[:]); err != nil {
		log.Fatal(err)
	}
	fmt.Println(wc[0].Op, wc[0].Status)
	b.mr.Do(func(p []byte) { fmt.Printf("%s\n", p[:20]) })
	// Output:
	// RDMA_WRITE success
	// hello, remote memory
}
