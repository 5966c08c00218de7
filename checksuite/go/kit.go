// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package programs has the programs of the suite that are written in Go: small functions, each with a mistake, or with
// mistake false the correct program that looks like it. The command checksuite runs them, each in a process of its own.
package programs

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// DeviceVariable is the variable of the environment that names the programs' device.
const DeviceVariable = "CHECKSUITE_DEVICE"

const (
	patience = 60 * time.Second // no program takes as long, on any machine
	page     = 4096
	large    = 1 << 20
	grh      = 40
	qkey     = 0x11111111

	access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
)

// Program is a mistake and its correct twin. Together rule and shape name it.
type Program struct {
	Rule, Shape string
	Run         func(mistake bool)
}

// Main runs the program of a name and ends the process.
func Main(name string, mistake bool) {
	time.AfterFunc(patience, func() { fail(context.DeadlineExceeded) })
	for _, p := range All {
		if p.Rule+"-"+p.Shape == name {
			p.Run(mistake)
			os.Exit(0)
		}
	}
	fail(fmt.Errorf("no program %q", name))
}

func fail(err error) {
	_, file, line, _ := runtime.Caller(2)
	fmt.Fprintf(os.Stderr, "%s:%d: %v\n", file, line, err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		fail(err)
	}
	return v
}

// host is a device and its domain, and the objects that close closes first: queue pairs, then the others.
type host struct {
	dev    *verbs.Device
	pd     *verbs.PD
	qps    []*verbs.QP
	others []func() error
}

// open opens the programs' device.
func open() *host {
	dev := must(ramjet.Open(os.Getenv(DeviceVariable)))
	return &host{dev: dev, pd: must(dev.AllocPD())}
}

// close closes all. To close a queue pair earlier is no mistake: a second Close does nothing.
func (h *host) close() {
	for _, qp := range h.qps {
		check(qp.Close())
	}
	for _, closeIt := range slices.Backward(h.others) {
		check(closeIt())
	}
	check(h.pd.Close())
	check(h.dev.Close())
}

// region registers memory of its own.
func (h *host) region(size int) *verbs.MR {
	mr := must(h.pd.AllocMR(size, access))
	h.others = append(h.others, mr.Close)
	return mr
}

// side is a queue pair with its completion queue.
type side struct {
	qp *verbs.QP
	cq *verbs.CQ
}

// side makes a queue pair with the parameters of init; zeros stand for RC, 16 work requests, and a completion queue of
// its own.
func (h *host) side(init verbs.QPInit) side {
	if init.Type == 0 {
		init.Type = verbs.RC
	}
	if init.Cap.MaxSendWR == 0 {
		init.Cap.MaxSendWR, init.Cap.MaxRecvWR = 16, 16
	}
	if init.SRQ != nil {
		init.Cap.MaxRecvWR = 0
	}
	if init.SendCQ == nil {
		cq := must(h.dev.CreateCQ(64, nil))
		h.others = append(h.others, cq.Close)
		init.SendCQ, init.RecvCQ = cq, cq
	}
	s := side{must(h.pd.CreateQP(init)), init.SendCQ}
	h.qps = append(h.qps, s.qp)
	return s
}

// pair connects two queue pairs; UD queue pairs are ready to send.
func (h *host) pair(init verbs.QPInit, opt *verbs.ConnectOptions) (a, b side) {
	a, b = h.side(init), h.side(init)
	if init.Type == verbs.UD {
		check(a.qp.StartUD(qkey))
		check(b.qp.StartUD(qkey))
	} else {
		connect(a, b, opt, opt)
	}
	return a, b
}

func connect(a, b side, optA, optB *verbs.ConnectOptions) {
	atA, atB := must(a.qp.Endpoint(0)), must(b.qp.Endpoint(0))
	check(a.qp.Connect(atA, atB, optA))
	check(b.qp.Connect(atB, atA, optB))
}

// next waits for a completion, and done for one of success.
func (s side) next() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wc [1]verbs.WC
	if _, err := s.cq.Wait(ctx, wc[:]); err != nil {
		fail(err)
	}
	return wc[0]
}

func (s side) done() verbs.WC {
	wc := s.next()
	if err := wc.Err(); err != nil {
		fail(err)
	}
	return wc
}

func (s side) receive(sgl ...verbs.SGE) {
	if err := s.qp.PostRecv(&verbs.RecvWR{SGL: sgl}); err != nil {
		fail(err)
	}
}

// post posts a signaled work request.
func (s side) post(wr *verbs.SendWR) {
	wr.Flags |= verbs.Signaled
	s.postAs(wr)
}

func (s side) postAs(wr *verbs.SendWR) {
	if err := s.qp.PostSend(wr); err != nil {
		fail(err)
	}
}

func (s side) send(sgl ...verbs.SGE) { s.post(new(verbs.SendWR).Send(sgl...)) }

func (s side) write(to verbs.Remote, sgl ...verbs.SGE) { s.post(new(verbs.SendWR).Write(to, sgl...)) }

func (s side) read(from verbs.Remote, sgl ...verbs.SGE) { s.post(new(verbs.SendWR).Read(from, sgl...)) }

func all(mr *verbs.MR) verbs.SGE { return mr.SGE(0, mr.Len()) }
