// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// client is a queue pair to a server, with memory of its own.
type client struct {
	pd *verbs.PD
	cq *verbs.CQ
	mr *verbs.MR
	qp *verbs.QP
}

// shared is a server whose memory two clients use. Each has a device of its own.
type shared struct {
	*world
	kind    string
	pd      *verbs.PD
	cq      *verbs.CQ
	mr      *verbs.MR
	qps     [2]*verbs.QP // of the server
	clients [2]client

	lastServer *verbs.QP // of the last connection

	others []*check.Checker // of clients that stand for other processes
}

func open(t *testing.T, kind string) *verbs.Device {
	t.Helper()
	switch kind {
	case "roce":
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
		return dev
	case "iwarp":
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) })
		return dev
	}
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
	return dev
}

const size = 1 << 20

func newShared(t *testing.T, kind string) *shared {
	w := &shared{world: &world{T: t}, kind: kind}
	w.checker = w.newChecker()
	return w.open(func() *check.Checker { return w.checker })
}

func (w *shared) newChecker() *check.Checker {
	w.Helper()
	opts, err := check.ParseOptions("")
	w.ok(err)
	return check.New(&w.report, opts)
}

// open opens the devices, those of clients with a checker each.
func (w *shared) open(checker func() *check.Checker) *shared {
	t, kind := w.T, w.kind
	w.Helper()
	dev := open(t, kind)
	w.checker.Watch(dev)
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	var err error
	w.pd, err = dev.AllocPD()
	w.ok(err)
	w.cq, err = dev.CreateCQ(64, nil)
	w.ok(err)
	w.mr, err = w.pd.RegMR(make([]byte, size+2*8), access)
	w.ok(err)
	for i := range w.clients {
		c := &w.clients[i]
		dev := open(t, kind)
		checker().Watch(dev)
		c.pd, err = dev.AllocPD()
		w.ok(err)
		c.cq, err = dev.CreateCQ(64, nil)
		w.ok(err)
		c.mr, err = c.pd.RegMR(make([]byte, size), access)
		w.ok(err)
		c.qp, w.qps[i] = w.connect(c.pd, c.cq)
	}
	return w
}

// connect makes a queue pair of a client, and connects it to one of the server.
func (w *shared) connect(pd *verbs.PD, cq *verbs.CQ) (client, server *verbs.QP) {
	w.Helper()
	client, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 4}})
	w.ok(err)
	server, err = w.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 4}})
	w.ok(err)
	here, err := server.Endpoint(0)
	w.ok(err)
	there, err := client.Endpoint(0)
	w.ok(err)
	w.ok(server.Connect(here, there, &pair.Patient))
	w.ok(client.Connect(there, here, &pair.Patient))
	w.lastServer = server
	return client, server
}

// second returns a client with the memory of another, and a queue pair and completion queue of its own.
func (w *shared) second(i int) client {
	w.Helper()
	c := w.clients[i]
	cq, err := c.pd.Device().CreateCQ(64, nil)
	w.ok(err)
	c.cq = cq
	c.qp, _ = w.connect(c.pd, cq)
	return c
}

// resting runs f while the server's device rests. Another goroutine has its lock, with which none of another device may
// be taken: f posts to those of the clients.
func (w *shared) resting(f func()) {
	rests, over := make(chan struct{}), make(chan struct{})
	go w.mr.Do(func([]byte) {
		close(rests)
		<-over
	})
	<-rests
	defer close(over)
	f()
}

// post posts an operation of a client on n bytes at off of the server's memory.
func (w *shared) post(i int, op verbs.SendOp, off, n int) {
	w.Helper()
	c := &w.clients[i]
	remote := w.mr.Remote()
	remote.Addr += uint64(off)
	w.ok(c.qp.PostSend(&verbs.SendWR{ID: uint64(100*i + n), Op: op, Flags: verbs.Signaled,
		SGL: []verbs.SGE{c.mr.SGE(0, n)}, Remote: remote, Add: 1}))
}

func (w *shared) done(i int) {
	w.Helper()
	if wc := w.wait(w.clients[i].cq); wc.Status != verbs.StatusSuccess {
		w.Fatal(wc.Status)
	}
}

// exit ends the program, and fails the test unless exactly these rules were reported.
func (w *shared) exit(rules ...string) {
	w.Helper()
	for i := range w.clients { // over iWARP a WRITE completes before it arrives
		w.clients[i].mr.Bytes()[0] = 1
		w.post(i, verbs.OpWrite, size+8*i, 1)
		w.done(i)
		_, err := w.mr.WaitByte(w.Context(), size+8*i, 0)
		w.ok(err)
	}
	w.verdict(rules...)
}

// verdict is exit without operations of its own.
func (w *shared) verdict(rules ...string) {
	w.Helper()
	w.checker.Exit()
	for _, c := range w.others {
		c.Exit()
	}
	var got []string
	for _, r := range w.rules() {
		if r != "leak" {
			got = append(got, r)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(rules) {
		w.Fatalf("reported %q, want %q\n%s", got, rules, w.text.String())
	}
	if testing.Verbose() {
		w.Log(w.text.String())
	}
}

var kinds = []string{"roce", "iwarp", "shm"}

func onAll(t *testing.T, f func(w *shared)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { f(newShared(t, kind)) })
	}
}

// fill gives the clients different bytes.
func (w *shared) fill() {
	for i := range w.clients {
		b := w.clients[i].mr.Bytes()
		for j := range b {
			b[j] = byte(i + 1)
		}
	}
}

// collide has two clients WRITE to the same bytes at once: the server's device rests until both have posted.
func (w *shared) collide() {
	w.resting(func() {
		w.post(0, verbs.OpWrite, 0, 4096)
		w.post(1, verbs.OpWrite, 4000, 64)
	})
	w.done(0)
	w.done(1)
	w.exit("race")
}

// TestRace has two clients WRITE to the same bytes at once. The report says which queue pair posted which WRITE, and
// has the last packets, where there are some.
func TestRace(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		w.collide()
		places := `of qp\d+ was posted,[^▶]*of qp\d+ was posted,`
		if w.kind != "shm" {
			places += `[^▶]*The last packets of queue pair`
		}
		if text := w.text.String(); !regexp.MustCompile(places).MatchString(text) {
			w.Errorf("the report is\n%s", text)
		}
	})
}

// TestRaceLong has a short WRITE come in the middle of a long one.
func TestRaceLong(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		w.resting(func() {
			w.post(0, verbs.OpWrite, 0, size)
			w.post(1, verbs.OpWrite, size-64, 64)
		})
		w.done(0)
		w.done(1)
		w.exit("race")
	})
}

// TestRaceWithAtomic has one client add to a counter that the other sets.
func TestRaceWithAtomic(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		w.resting(func() {
			w.post(0, verbs.OpFetchAdd, 8, 8)
			w.post(1, verbs.OpWrite, 8, 8)
		})
		w.done(0)
		w.done(1)
		w.exit("race")
	})
}

// TestRaceOfRead has a client READ on one queue pair what it WRITEs on another.
func TestRaceOfRead(t *testing.T) {
	for _, again := range []bool{false, true} {
		onAll(t, func(w *shared) {
			w.fill()
			w.clients[1] = w.second(0)
			// A READ that is repeated because an answer was late is excused, as one that the program repeats is. So one
			// of several has to be found, each of bytes of its own.
			for i := range 8 {
				off := i * 4096
				w.resting(func() {
					w.post(0, verbs.OpWrite, off, 4096)
					w.post(1, verbs.OpRead, off, 4096)
				})
				w.done(0)
				w.done(1)
				if again {
					w.post(1, verbs.OpRead, off, 4096) // as it does if a checksum was wrong
					w.done(1)
				}
			}
			if again {
				w.exit()
			} else {
				w.exit("race")
			}
		})
	}
}

// TestNoRaceAfterCompletion has the second client wait for the first one's completion, of which nobody but the program
// knows.
func TestNoRaceAfterCompletion(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		for i := range 20 {
			w.post(i%2, verbs.OpWrite, i, 4096)
			w.done(i % 2)
			w.post(i%2, verbs.OpRead, i, 4096)
			w.done(i % 2)
		}
		w.exit()
	})
}

// TestNoRaceApart has them use bytes side by side.
func TestNoRaceApart(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		for range 4 {
			w.post(0, verbs.OpWrite, 0, size/2)
			w.post(1, verbs.OpWrite, size/2, size/2)
		}
		for range 4 {
			w.done(0)
			w.done(1)
		}
		w.exit()
	})
}

// TestNoRaceSame has them write what is there already: nobody can tell the order.
func TestNoRaceSame(t *testing.T) {
	onAll(t, func(w *shared) {
		for range 4 {
			w.post(0, verbs.OpWrite, 0, size/4)
			w.post(1, verbs.OpWrite, 0, size/4)
		}
		for range 4 {
			w.done(0)
			w.done(1)
		}
		w.exit()
	})
}

// TestNoRaceOfAtomics has them add to one counter.
func TestNoRaceOfAtomics(t *testing.T) {
	onAll(t, func(w *shared) {
		for range 4 {
			w.resting(func() {
				w.post(0, verbs.OpFetchAdd, 0, 8)
				w.post(1, verbs.OpFetchAdd, 0, 8)
			})
			w.done(0)
			w.done(1)
		}
		w.exit()
	})
}
