// SPDX-License-Identifier: Apache-2.0

// Services sends one message by each transport service to a receiver that has posted no receive, and
// then one to a receiver that has.
package main

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	a, b := kit.Open("roce:127.0.71.5", 16), kit.Open("roce:127.0.71.6", 16)
	defer a.Dev.Close()
	defer b.Dev.Close()
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		try(a, b, service)
	}
}

func try(a, b *kit.Side, service verbs.QPType) {
	const qkey = 0x1234
	for _, s := range []*kit.Side{a, b} {
		s.QP = kit.Must(s.PD.CreateQP(verbs.QPInit{Type: service, SendCQ: s.CQ, RecvCQ: s.CQ}))
	}
	wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, Inline: []byte("hello")}
	if service == verbs.UD {
		kit.Check(a.QP.StartUD(qkey))
		kit.Check(b.QP.StartUD(qkey))
		to := kit.Must(b.QP.Endpoint(0))
		wr.AH = kit.Must(a.PD.CreateAH(kit.Must(a.QP.Endpoint(0)).To(to, 0)))
		wr.RemoteQPN, wr.RemoteQKey = to.QPN, qkey
		defer wr.AH.Close()
	} else {
		kit.Connect(a, b, &verbs.ConnectOptions{RNRRetry: 1})
	}

	in := b.Register(64, verbs.LocalWrite) // UD: 40 bytes of it are for the GRH
	kit.Check(b.QP.PostRecv(&verbs.RecvWR{SGL: kit.All(in)}))
	kit.Check(a.QP.PostSend(&wr))
	fmt.Printf("%v with a receive: sender %v, receiver %v\n", service, a.Wait().Status, b.Wait().Status)

	kit.Check(a.QP.PostSend(&wr))
	fmt.Printf("%v without a receive: sender %v\n", service, a.Wait().Status)
	kit.Check(a.QP.Close())
	kit.Check(b.QP.Close())
	kit.Check(in.Close())
}
