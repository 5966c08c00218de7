// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Transfer is a stream of messages of one kind between two hosts.
type Transfer struct {
	Op     verbs.SendOp // Send, Write or Read
	Length int          // bytes of a message
	Depth  int          // messages under way
	Window int          // of the flow, bytes
	Link   Link         // both directions
	Params Params
}

// Result is what became of a transfer.
type Result struct {
	Messages int
	Goodput  float64 // bits of messages that completed, per second
	Rewinds  uint64
	Timeouts uint64
	Stats    Stats
	Err      verbs.Status // of the first message that failed
}

// Goodput runs a transfer for a time.
func Goodput(seed uint64, t Transfer, d time.Duration) (Result, error) {
	n := New(seed)
	a, b := n.NewHost(t.Window), n.NewHost(t.Window)
	n.Connect(a, b, t.Link, t.Link)
	caps := verbs.QPCap{MaxSendWR: t.Depth, MaxRecvWR: 2 * t.Depth, MaxSendSGE: 1, MaxRecvSGE: 1}
	qa, qb := a.NewQP(ibta.Config{Type: verbs.RC, Caps: caps}), b.NewQP(ibta.Config{Type: verbs.RC, Caps: caps})
	if err := Join(qa, qb, t.Params); err != nil {
		return Result{}, err
	}
	here, err := a.PD.RegMR(make([]byte, t.Length), verbs.LocalWrite)
	if err != nil {
		return Result{}, err
	}
	there, err := b.PD.RegMR(make([]byte, t.Length), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return Result{}, err
	}
	receive := func() error {
		_, err := qb.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{there.SGE(0, t.Length)}}})
		return err
	}
	var r Result
	post := func() error {
		_, err := qa.Post(verbs.SendWR{Op: t.Op, Flags: verbs.Signaled, SGL: []verbs.SGE{here.SGE(0, t.Length)}, Remote: there.Remote()})
		return err
	}
	qb.OnWC = func(wc *verbs.WC, _ bool) {
		if wc.Status == verbs.Success {
			receive()
		}
	}
	qa.OnWC = func(wc *verbs.WC, _ bool) {
		if wc.Status != verbs.Success {
			if r.Err == verbs.Success {
				r.Err = wc.Status
			}
			return
		}
		r.Messages++
		post()
	}
	for range t.Depth {
		if t.Op == verbs.Send {
			receive()
			receive()
		}
		if err := post(); err != nil {
			return r, err
		}
	}
	n.Run(ibta.Time(d), func() bool { return r.Err != verbs.Success })
	r.Goodput = float64(r.Messages) * float64(t.Length) * 8 / d.Seconds()
	r.Rewinds, r.Timeouts, r.Stats = a.Device.Counters.Rewinds, a.Device.Counters.Timeouts, n.Stats
	return r, nil
}
