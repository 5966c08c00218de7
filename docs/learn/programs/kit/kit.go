// SPDX-License-Identifier: Apache-2.0

// Package kit has the code that the programs of this tutorial share, once chapter 3 has shown it: two devices of one
// process, each with a completion queue and an RC queue pair. Any error ends the program.
package kit

import (
	"context"
	"log"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Patience bounds every wait.
const Patience = 30 * time.Second

// Side is one end of a connection.
type Side struct {
	Dev *verbs.Device
	PD  *verbs.PD
	CQ  *verbs.CQ
	QP  *verbs.QP
}

// Must returns v, and ends the program if there is an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		log.SetFlags(0)
		log.Fatal(err)
	}
}

// Open opens a device, with a completion queue of cqe entries and a queue pair of default sizes.
func Open(device string, cqe int, opts ...ramjet.Option) *Side {
	s := &Side{Dev: Must(ramjet.Open(device, opts...))}
	s.PD = Must(s.Dev.AllocPD())
	s.CQ = Must(s.Dev.CreateCQ(cqe, nil))
	s.QP = Must(s.PD.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.CQ, RecvCQ: s.CQ}))
	return s
}

// Pair opens two devices and connects them.
func Pair(opt *verbs.ConnectOptions) (a, b *Side) {
	a, b = Open("roce:127.0.71.1", 256), Open("roce:127.0.71.2", 256)
	Connect(a, b, opt)
	return a, b
}

// Connect connects two queue pairs.
func Connect(a, b *Side, opt *verbs.ConnectOptions) {
	atA, atB := Must(a.QP.Endpoint(0)), Must(b.QP.Endpoint(0))
	Check(a.QP.Connect(atA, atB, opt))
	Check(b.QP.Connect(atB, atA, opt))
}

// Register registers size bytes of zeros.
func (s *Side) Register(size int, access verbs.Access) *verbs.MR {
	return Must(s.PD.RegMR(make([]byte, size), access))
}

// Put registers a text.
func (s *Side) Put(text string) *verbs.MR {
	return Must(s.PD.RegMR([]byte(text), verbs.LocalWrite))
}

// Wait takes the next completion.
func (s *Side) Wait() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var wc [1]verbs.WC
	Must(s.CQ.Wait(ctx, wc[:]))
	return wc[0]
}

// Text returns the first n bytes of a region as a string.
func Text(mr *verbs.MR, n int) (s string) {
	mr.Do(func(b []byte) { s = string(b[:n]) })
	return s
}

// All is a piece of a work request: the whole region.
func All(mr *verbs.MR) []verbs.SGE { return []verbs.SGE{mr.SGE(0, mr.Len())} }
