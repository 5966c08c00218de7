// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// refill WRITEs from a buffer, and fills it again. If that is wrong, the completion has not been polled yet.
func refill(conn *cm.Conn, to verbs.Remote, pause func(time.Duration), wrong bool) error {
	buf, err := conn.Pool().Get(4096)
	if err != nil {
		return err
	}
	defer buf.Release()
	wr := &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{buf.SGE(4096)}, Remote: to}
	if err := conn.QP().PostSend(wr); err != nil {
		return err
	}
	if wrong {
		buf.Bytes()[7]++
	}
	for i := 0; conn.CQ().Poll(make([]verbs.WC, 1)) == 0; i++ {
		if i == 10_000 {
			return errors.New("no completion after 10 seconds")
		}
		pause(time.Millisecond)
	}
	buf.Bytes()[7]++
	return nil
}

func checkedRefill(kind string, wrong, dies bool) func(w *rdmatest.World) {
	return func(w *rdmatest.World) {
		w.Check("")
		server, client := w.Host("server"), w.Host("client")
		s, c := kinds[kind](w, server, client)
		served(w, server, s, 4096, untilDone)
		if dies {
			w.After(100*time.Millisecond, client.Kill)
		}
		task := client.Go(func(ctx context.Context) error {
			conn, to, err := dial(ctx, c, server)
			if err != nil {
				return err
			}
			defer conn.Close()
			if dies {
				<-ctx.Done()
			}
			return refill(conn, to, w.Sleep, wrong)
		})
		if err := task.Wait(); err != nil && !client.Died() {
			w.Fatal(err)
		}
	}
}

// TestCheck: a mistake fails the test with the checker's report, and its correct twin does not.
func TestCheck(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if f := rdmatest.Find(t, 5, checkedRefill(kind, false, false)); f != nil {
				t.Errorf("without a mistake:\n%v", f)
			}
			mistaken(t, checkedRefill(kind, true, false))
		})
	}
}

// mistaken returns the report of the mistake.
func mistaken(t *testing.T, test func(w *rdmatest.World)) string {
	t.Helper()
	report := `(?s)^after [\d.]+\S?s: ramjet check: send-modified: .*RDMA_WRITE 0x1 of qp\d.*It was posted, 00:00:00\.\d+:.*rdmatest_test\.refill`
	f := rdmatest.Find(t, 1, test)
	if f == nil || len(f.Texts) != 1 || !regexp.MustCompile(report).MatchString(f.Texts[0]) {
		t.Fatalf("the report is\n%v", f)
	}
	return f.Texts[0]
}

// TestCheckSameReport: a seed has the same report each time, to the last byte, if Go has stopped no goroutine in its
// midst. Where it often does, few reports are compared: most plays are dropped there.
func TestCheckSameReport(t *testing.T) {
	if rdmatest.RaceDetector {
		t.Skip("the race detector has goroutines go on in random order")
	}
	preempted := testrun.Preemptions(t)
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			first := ""
			for same, tries := 0, 0; same < 20 && (same < 3 || tries < 60); tries++ {
				if tries == 500 {
					t.Skip("this machine stops the test all the time")
				}
				var disturbed []bool // by play: the report is of the first
				report := mistaken(t, func(w *rdmatest.World) {
					preempted() // what was before does not count
					defer func() { disturbed = append(disturbed, preempted()) }()
					checkedRefill(kind, true, false)(w)
				})
				if disturbed[0] {
					continue
				}
				if first == "" {
					first = report
				}
				if report != first {
					t.Fatalf("the report is\n%s\nand before it was\n%s", report, first)
				}
				same++
			}
		})
	}
}

// TestCheckKilled: a killed process need not close its objects.
func TestCheckKilled(t *testing.T) {
	for kind := range kinds {
		if f := rdmatest.Find(t, 3, checkedRefill(kind, false, true)); f != nil {
			t.Errorf("%s: %v", kind, f)
		}
	}
}

// TestCheckFaults: connections through faults have no findings.
func TestCheckFaults(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			rdmatest.Run(t, 10, func(w *rdmatest.World) {
				w.Check("")
				a, b := w.Host("server"), w.Host("client")
				server, client := open(w, a, b)
				w.Draw(rdmatest.Packets|rdmatest.Passing|rdmatest.Fatal, a, b)
				if err := converse(w, a, b, server, client, 1+w.Rand.IntN(30)); err != nil && !a.Died() && !b.Died() {
					w.Fatal(err)
				}
			})
		})
	}
}

// pairRefill makes the mistake, or not, on devices in real time.
func pairRefill(t *testing.T, kind string, wrong bool) {
	var a, b *verbs.Device
	if kind == "infiniband" {
		a, b = rdmatest.CheckedFabricPair(t, "")
	} else {
		a, b = rdmatest.CheckedPair(t, kind, "")
	}
	server, client := rdmatest.Conns(t, a, b)
	mr, err := server.PD().AllocMR(4096, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mr.Close() })
	if err := refill(client, mr.Remote(), time.Sleep, wrong); err != nil {
		t.Fatal(err)
	}
}

var pairs = []string{"roce", "iwarp", "infiniband", "shm"}

func TestBrokenCheck(t *testing.T) {
	onlyBroken(t)
	for _, kind := range pairs {
		pairRefill(t, kind, true)
	}
}

// TestPairChecked: the same on devices in real time.
func TestPairChecked(t *testing.T) {
	t.Parallel()
	for _, kind := range pairs {
		pairRefill(t, kind, false)
	}
	out := runBroken(t, "TestBrokenCheck")
	if n := strings.Count(out, "ramjet check: send-modified:"); n != len(pairs) {
		t.Errorf("%d of %d are found:\n%s", n, len(pairs), out)
	}
}
