// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var datagramKinds = []string{"roce", "shm"}

// datagram sends n bytes to the second queue pair.
func (w *loop) datagram(n int) {
	w.Helper()
	a, err := w.qps[0].Endpoint(0)
	w.ok(err)
	b, err := w.qps[1].Endpoint(0)
	w.ok(err)
	ah, err := w.pd.CreateAH(a.To(b, 0))
	w.ok(err)
	w.send(new(verbs.SendWR).Send(w.mr.SGE(0, n)).To(ah, w.qps[1].Num(), qkey))
}

// TestGRHRoom has receives for datagrams of 64 bytes, with the room for a GRH or without.
func TestGRHRoom(t *testing.T) {
	wrongAndRight(t, "ud-grh-room", datagramKinds, verbs.QPInit{Type: verbs.UD}, func(w *loop, mistake bool) {
		room := 104
		if mistake {
			room = 103
		}
		w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(1000, 20), w.mr.SGE(2000, room-20)}}))
		w.datagram(64)
		if !mistake {
			w.wait(w.cqs[1])
			return
		}
		for len(w.rules()) == 0 {
			time.Sleep(time.Millisecond)
			w.cqs[1].Poll(make([]verbs.WC, 1))
		}
	})
}

// TestGRHLonger has a datagram that the receive is not for, with a GRH or without.
func TestGRHLonger(t *testing.T) {
	for _, kind := range datagramKinds {
		w := newLoop(t, kind, verbs.QPInit{Type: verbs.UD})
		w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(1000, 104)}}))
		w.datagram(200)
		w.datagram(64)
		w.wait(w.cqs[1])
		w.want()
	}
}

// TestGRHRoomShared has receives of a shared receive queue that are shorter than a GRH. It is for datagrams or not.
func TestGRHRoomShared(t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UD} {
			w := newLoop(t, "roce", verbs.QPInit{Type: verbs.RC})
			srq, err := w.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
			w.ok(err)
			post := func() { w.ok(srq.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(0, 32)}})) }
			if before {
				post()
			}
			_, err = w.pd.CreateQP(verbs.QPInit{Type: typ, SRQ: srq, SendCQ: w.cqs[0], RecvCQ: w.cqs[0]})
			w.ok(err)
			if !before {
				post()
			}
			if typ == verbs.UD {
				w.want("ud-grh-room")
				continue
			}
			w.want()
		}
	}
}

// TestGRHRead sends on what came, from where its data is, or from where the receive begins.
func TestGRHRead(t *testing.T) {
	for name, c := range map[string]struct {
		wrong, right func(mr *verbs.MR) verbs.SendWR
	}{
		"message": {
			func(mr *verbs.MR) verbs.SendWR { return *new(verbs.SendWR).Send(mr.SGE(1000, 64)) },
			func(mr *verbs.MR) verbs.SendWR { return *new(verbs.SendWR).Send(mr.SGE(1040, 64)) },
		},
		"all": {
			func(mr *verbs.MR) verbs.SendWR { return *new(verbs.SendWR).Send(mr.SGE(1000, 104)) },
			func(mr *verbs.MR) verbs.SendWR { return *new(verbs.SendWR).Send(mr.SGE(1000, 40), mr.SGE(1040, 64)) },
		},
		"inline": {
			func(mr *verbs.MR) verbs.SendWR { return verbs.SendWR{Op: verbs.OpSend, Inline: mr.Bytes()[1000:1064]} },
			func(mr *verbs.MR) verbs.SendWR { return verbs.SendWR{Op: verbs.OpSend, Inline: mr.Bytes()[1040:1104]} },
		},
		"used again": { // for a message of the program
			func(mr *verbs.MR) verbs.SendWR { return *new(verbs.SendWR).Send(mr.SGE(1000, 64)) },
			func(mr *verbs.MR) verbs.SendWR {
				copy(mr.Bytes()[1000:], "a message")
				copy(mr.Bytes()[1020:], "of the program")
				return *new(verbs.SendWR).Send(mr.SGE(1000, 64))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrongAndRight(t, "ud-grh-read", datagramKinds, verbs.QPInit{Type: verbs.UD}, func(w *loop, mistake bool) {
				w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(1000, 104)}}))
				w.datagram(64)
				w.wait(w.cqs[1])
				if mistake {
					w.post(1, c.wrong(w.mr))
				} else {
					w.post(1, c.right(w.mr))
				}
			})
		})
	}
}

// post sends a datagram of the i-th queue pair to itself.
func (w *loop) post(i int, wr verbs.SendWR) {
	w.Helper()
	e, err := w.qps[i].Endpoint(0)
	w.ok(err)
	ah, err := w.pd.CreateAH(e.To(e, 0))
	w.ok(err)
	w.ok(w.qps[i].PostSend(wr.To(ah, w.qps[i].Num(), qkey)))
}
