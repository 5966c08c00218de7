// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// echoVar names the address of the process of [TestEcho], or eventfds.
const echoVar = "RAMJET_SHM_ECHO"

const eventfds = "eventfds"

// BenchmarkAsleep is a round trip of 8 bytes between two processes that both sleep until there is something: a SEND
// there and back, and beside it the same with a pair of eventfds, which is all that the system has to do for that. It
// reports the median, as the mean says more of the machine's other work.
func BenchmarkAsleep(b *testing.B) {
	b.Run("SEND", func(b *testing.B) {
		dev, addr := loopback.Open(b, openAsleep)
		s := newEcho(dev)
		in, out := startEcho(b, addr.String())
		if err := json.NewEncoder(in).Encode(s.ep); err != nil {
			b.Fatal(err)
		}
		var theirs verbs.Endpoint
		if err := json.NewDecoder(out).Decode(&theirs); err != nil {
			b.Fatal(err)
		}
		if err := s.qp.Connect(s.ep, theirs, nil); err != nil {
			b.Fatal(err)
		}
		must(0, s.qp.PostRecv(&s.recv))
		trips(b, func() {
			must(0, s.qp.PostSend(&s.wr))
			s.sleeps(b.Context())
		})
	})
	b.Run("eventfd", func(b *testing.B) {
		var pair [2]*os.File
		for i := range pair {
			pair[i] = os.NewFile(uintptr(must(unix.Eventfd(0, unix.EFD_CLOEXEC))), "eventfd")
			defer pair[i].Close()
		}
		startEcho(b, eventfds, pair[:]...)
		there, back := int(pair[0].Fd()), int(pair[1].Fd())
		var buf [8]byte
		trips(b, func() {
			buf[0] = 1
			must(unix.Write(there, buf[:]))
			must(unix.Read(back, buf[:]))
		})
	})
}

func openAsleep(addr string) (*verbs.Device, error) {
	return shm.Open(addr, &shm.Options{EventsOnly: true})
}

// trips times round trips.
func trips(b *testing.B, one func()) {
	for range 1000 {
		one()
	}
	took := make([]time.Duration, 0, 1<<20)
	for last := time.Now(); b.Loop(); {
		one()
		now := time.Now()
		took, last = append(took, now.Sub(last)), now
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "median-ns")
}

// startEcho starts a process that sends messages back.
func startEcho(b *testing.B, what string, files ...*os.File) (in io.Writer, out io.Reader) {
	cmd := exec.Command(must(os.Executable()), "-test.run=^TestEcho$")
	cmd.Env = append(os.Environ(), echoVar+"="+what)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, files
	in, out = must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return in, out
}

// echoSide is a side of that.
type echoSide struct {
	side
	wr   verbs.SendWR
	recv verbs.RecvWR
}

func newEcho(dev *verbs.Device) *echoSide {
	e := &echoSide{side: side{dev: dev, pd: must(dev.AllocPD()),
		cq: must(dev.CreateCQ(16, &verbs.CQOptions{NoTimestamps: true}))}}
	e.mr = must(e.pd.AllocMR(4096, all))
	e.qp = must(e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16}}))
	e.ep = must(e.qp.Endpoint(0))
	e.wr = verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{e.mr.SGE(0, 8)}}
	e.recv.SGL = []verbs.SGE{e.mr.SGE(64, 8)}
	return e
}

// sleeps waits for a message, and posts the receive of the next one.
func (e *echoSide) sleeps(ctx context.Context) {
	must(e.cq.Wait(ctx, e.wc[:]))
	must(e.wc[0].QPN, e.wc[0].Err())
	must(0, e.qp.PostRecv(&e.recv))
}

// TestEcho is the process of startEcho. It is killed.
func TestEcho(t *testing.T) {
	switch what := os.Getenv(echoVar); what {
	case "":
		t.Skip("it is for processes that benchmarks start")
	case eventfds:
		for buf := make([]byte, 8); ; {
			must(unix.Read(3, buf))
			must(unix.Write(4, buf))
		}
	default:
		s := newEcho(must(openAsleep(what)))
		var theirs verbs.Endpoint
		if err := json.NewDecoder(os.Stdin).Decode(&theirs); err != nil {
			t.Fatal(err)
		}
		if err := s.qp.Connect(s.ep, theirs, nil); err != nil {
			t.Fatal(err)
		}
		must(0, s.qp.PostRecv(&s.recv))
		if err := json.NewEncoder(os.Stdout).Encode(s.ep); err != nil {
			t.Fatal(err)
		}
		for {
			s.sleeps(context.Background())
			must(0, s.qp.PostSend(&s.wr))
		}
	}
}
