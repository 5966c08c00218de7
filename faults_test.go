// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// openWithFaults opens a device of a kind on an address of its own.
func openWithFaults(t *testing.T, kind, text string) (*verbs.Device, *testrun.Buffer) {
	t.Helper()
	log := &testrun.Buffer{}
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
		return ramjet.Open(kind+":"+addr, ramjet.WithFaults(text), ramjet.WithFaultLog(log))
	})
	return dev, log
}

// faultPair connects a device without faults and one with them, which dials.
func faultPair(t *testing.T, kind, text string) (server, client *cm.Conn, log *testrun.Buffer) {
	t.Helper()
	a, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + ":" + addr) })
	b, log := openWithFaults(t, kind, text)
	// A busy machine may take longer to end a fault than a peer may be silent by default.
	server, client = rdmatest.Conns(t, a, b, cm.WithAckTimeout(20)) // 34 s, with all retries
	return server, client, log
}

func faultContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// exchange sends messages both ways, and checks them.
func exchange(t *testing.T, a, b *cm.Conn, n int) {
	t.Helper()
	ctx := faultContext(t)
	for i := range n {
		for _, way := range [][2]*cm.Conn{{a, b}, {b, a}} {
			sent := bytes.Repeat([]byte{byte(i + 1)}, 4000)
			result := make(chan error, 1)
			go func() { result <- way[0].Send(ctx, sent) }()
			got, err := way[1].Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), sent) {
				t.Fatal("other bytes have come")
			}
			got.Release()
			if err := <-result; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// struck returns how often faults have struck, by the device's metrics.
func struck(t *testing.T, dev *verbs.Device, kind string) uint64 {
	t.Helper()
	metrics, err := dev.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics {
		if m.FlatName() == "injected_faults_"+kind {
			return m.Value
		}
	}
	return 0
}

// strike sets a fault and does something that it strikes. A fault that lasts for a while may be over before a busy
// machine has done anything: then both come again. It returns the log of the last one.
func strike(t *testing.T, dev *verbs.Device, text, kind string, do func()) *testrun.Buffer {
	t.Helper()
	for ctx := faultContext(t); ; {
		log := &testrun.Buffer{}
		if err := ramjet.SetFaults(dev, text, log); err != nil {
			t.Fatal(err)
		}
		if do(); struck(t, dev, kind) > 0 {
			return log
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has not struck; the log is\n%v", text, log)
		}
	}
}

// TestFaultsOfPackets: reliable queue pairs survive all faults of packets.
func TestFaultsOfPackets(t *testing.T) {
	for _, text := range []string{
		"loss every 7 sent", "loss every 7 received", "duplicate every 3", "corrupt every 7 sent",
		"corrupt every 7 received", "reorder 200us every 3 sent", "reorder 200us every 3 received", "delay 100us 50us",
		"rate 100mbit", "rnr every 4 times 3",
	} {
		for _, kind := range []string{"roce", "infiniband"} {
			t.Run(kind+"/"+strings.ReplaceAll(text, " ", "-"), func(t *testing.T) {
				t.Parallel()
				var server, client *cm.Conn
				log := &testrun.Buffer{}
				if kind == "infiniband" {
					a, b := rdmatest.FabricPair(t)
					server, client = rdmatest.Conns(t, a, b)
				} else {
					server, client, _ = faultPair(t, kind, "event PATH_MIG after 1h")
				}
				dev := client.QP().Device()
				if err := ramjet.SetFaults(dev, "seed 1; "+text, log); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("the log is\n%v", log)
					}
				})
				exchange(t, server, client, 10)
				word, _, _ := strings.Cut(text, " ")
				if struck(t, dev, word) == 0 {
					t.Error("nothing was struck")
				}
				if err := ramjet.SetFaults(dev, "", nil); err != nil {
					t.Fatal(err)
				}
				exchange(t, server, client, 1)
			})
		}
	}
}

// TestPartitionFromCount: a partition of a queue pair begins with the nth packet, or the nth read or write of a stream,
// and not with the time. It is logged once, as a fault that does the same again.
func TestPartitionFromCount(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp"} {
		t.Run(kind, func(t *testing.T) {
			server, client, _ := faultPair(t, kind, "event PATH_MIG after 1h")
			dev, log := client.QP().Device(), &testrun.Buffer{}
			const text = "partition nth 40- peer 127.0.0.0/8 qp 1st"
			if err := ramjet.SetFaults(dev, text, log); err != nil {
				t.Fatal(err)
			}
			exchange(t, server, client, 2)
			if n := struck(t, dev, "partition"); n != 0 {
				t.Fatalf("it has struck %d times before its packet", n)
			}
			result := make(chan error, 1)
			ctx, cancel := context.WithCancel(faultContext(t))
			defer cancel()
			go func() {
				var err error
				for err == nil {
					if err = client.Send(ctx, make([]byte, 100)); err == nil {
						err = answer(ctx, server, client)
					}
				}
				result <- err
			}()
			for struck(t, dev, "partition") == 0 {
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-result:
				t.Fatalf("it ended: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			if err := ramjet.SetFaults(dev, "", nil); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), text+" device "+dev.Name()); n != 1 {
				t.Errorf("it is logged %d times:\n%v", n, log)
			}
			cancel()
			<-result
		})
	}
}

// TestFaultsOfStreams: iWARP survives a slow path, and detects changed bytes.
func TestFaultsOfStreams(t *testing.T) {
	for _, text := range []string{"delay 1ms 500us", "rate 100mbit", "down for 20ms",
		"partition peer 127.0.0.0/8 for 20ms", "partition peer 127.0.0.0/8 sent for 20ms",
		"partition peer 127.0.0.0/8 received for 20ms"} {
		t.Run(strings.ReplaceAll(text, " ", "-"), func(t *testing.T) {
			t.Parallel()
			a, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("iwarp:" + addr) })
			b, _ := openWithFaults(t, "iwarp", "late 1us nth 1000000")
			word, _, _ := strings.Cut(text, " ")
			log := strike(t, b, text, word, func() {
				server, client := rdmatest.Conns(t, a, b)
				exchange(t, server, client, 5)
				client.Close()
			})
			b.Close()
			if !strings.Contains(log.String(), word) || strings.Contains(log.String(), "never struck") {
				t.Errorf("the log is\n%v", log)
			}
		})
	}
	for _, way := range []string{"sent", "received"} {
		t.Run("corrupt-"+way, func(t *testing.T) {
			t.Parallel()
			server, client, _ := faultPair(t, "iwarp", "late 1us nth 1000000")
			exchange(t, server, client, 1)
			if err := ramjet.SetFaults(client.QP().Device(), "corrupt nth 3 "+way, nil); err != nil {
				t.Fatal(err)
			}
			ctx := faultContext(t)
			var err error
			for err == nil {
				if err = client.Send(ctx, make([]byte, 100)); err == nil {
					err = answer(ctx, server, client)
				}
			}
			if ctx.Err() != nil {
				t.Error("nobody has noticed")
			}
		})
	}
}

// TestOneWayPartition: in the direction of a partition nothing passes while it lasts, and in the other one all does.
func TestOneWayPartition(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp"} {
		for _, way := range []string{"sent", "received"} {
			t.Run(kind+"/"+way, func(t *testing.T) {
				t.Parallel()
				server, client, _ := faultPair(t, kind, "event PATH_MIG after 1h")
				exchange(t, server, client, 1)
				if err := ramjet.SetFaults(client.QP().Device(), "partition peer 127.0.0.0/8 "+way, nil); err != nil {
					t.Fatal(err)
				}
				cut, open := [2]*cm.Conn{client, server}, [2]*cm.Conn{server, client}
				if way == "received" {
					cut, open = open, cut
				}
				ctx := faultContext(t)
				go func() { _ = open[0].Send(ctx, []byte("open")) }() // over RoCE its acknowledgement is lost
				m, err := open[1].Recv(ctx)
				if err != nil {
					t.Fatal(err)
				}
				m.Release()
				go func() { _ = cut[0].Send(ctx, []byte("cut")) }()
				soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if m, err := cut[1].Recv(soon); err == nil {
					t.Errorf("%q has passed", m.Bytes())
				}
				if err := ramjet.SetFaults(client.QP().Device(), "", nil); err != nil {
					t.Fatal(err)
				}
				if m, err = cut[1].Recv(ctx); err != nil {
					t.Fatal(err)
				}
				m.Release()
			})
		}
	}
}

// TestPartitionEnds: over iWARP a peer that is cut off for long, be it in one direction, is gone.
func TestPartitionEnds(t *testing.T) {
	testrun.SkipUnlessLong(t, "it waits for half a minute")
	for _, way := range []string{"", "sent", "received"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			server, client, _ := faultPair(t, "iwarp", "event PATH_MIG after 1h")
			exchange(t, server, client, 1)
			if err := ramjet.SetFaults(client.QP().Device(), "partition peer 127.0.0.0/8 "+way, nil); err != nil {
				t.Fatal(err)
			}
			select {
			case <-client.Done():
			case <-time.After(3 * time.Minute):
				t.Error("nothing notices it")
			}
		})
	}
}

// TestEndComesLate: messages of a slow stream arrive before the peer's end, which comes late, too.
func TestEndComesLate(t *testing.T) {
	const late = 30 * time.Millisecond
	server, client, _ := faultPair(t, "iwarp", fmt.Sprintf("delay %v received", late))
	ctx := faultContext(t)
	if err := server.Send(ctx, []byte("last")); err != nil {
		t.Fatal(err)
	}
	m, err := client.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
	start := time.Now()
	server.Close()
	select {
	case <-client.Done():
	case <-ctx.Done():
		t.Fatal("the end does not come")
	}
	if took := time.Since(start); took < late {
		t.Errorf("the end comes after %v", took)
	}
}

// answer has a message come, and another go back.
func answer(ctx context.Context, server, client *cm.Conn) error {
	b, err := server.Recv(ctx)
	if err != nil {
		return err
	}
	b.Release()
	if err := server.Send(ctx, make([]byte, 100)); err != nil {
		return err
	}
	if b, err = client.Recv(ctx); err == nil {
		b.Release()
	}
	return err
}

// TestRefusedFaults: a fault that makes no sense is refused by its name.
func TestRefusedFaults(t *testing.T) {
	for _, c := range [][3]string{
		{"iwarp", "delay 1ms; loss 1%", "the fault `loss 1%`"}, {"iwarp", "rnr 1%", "`rnr 1%`"},
		{"shm", "corrupt 1%", "shared memory has no packets"}, {"shm", "down after 1s", "`down after 1s`"},
	} {
		_, err := ramjet.Open(c[0]+":"+loopback.Next().String(), ramjet.WithFaults(c[1]))
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(fmt.Sprint(err), c[2]) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := ramjet.Open("roce:127.0.0.1", ramjet.WithFaults("loss 1%\nlos")); err == nil ||
		!strings.Contains(err.Error(), "line 2, column 1") {
		t.Error(err)
	}
}

// TestFaultsOfCalls: calls fail that are to fail, and no others.
func TestFaultsOfCalls(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dev, log := openWithFaults(t, kind,
				"fail reg_mr ENOMEM nth 2; fail create_qp EINVAL nth 1; fail create_cq EBUSY nth 2; fail post_send ENOMEM nth 1; fail post_recv EIO nth 2")
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 64)
			for i, want := range []error{nil, verbs.ErrNoMemory, nil} {
				if _, err := pd.RegMR(buf, verbs.LocalWrite); !errors.Is(err, want) {
					t.Errorf("region %d: %v, want %v", i+1, err, want)
				}
			}
			cq, err := dev.CreateCQ(16, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dev.CreateCQ(16, nil); !errors.Is(err, verbs.ErrBusy) {
				t.Error(err)
			}
			init := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
			if _, err := pd.CreateQP(init); !errors.Is(err, verbs.ErrInvalid) {
				t.Error(err)
			}
			qp, err := pd.CreateQP(init)
			if err != nil {
				t.Fatal(err)
			}
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}); !errors.Is(err, verbs.ErrQueueFull) {
				t.Error(err)
			}
			dev.Close()
			if got := log.String(); strings.Count(got, "\n") != 4+6 ||
				!strings.Contains(got,
					"fail post_recv EIO nth 2: never struck: there were no post_recv calls that it selects") {
				t.Errorf("the log is\n%s", got)
			}
		})
	}
}

// TestFaultsOfWork: a work request completes with the status that a fault wants, whether it is signaled or not. Then
// its queue pair is in error, and the work requests behind it are flushed.
func TestFaultsOfWork(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		for _, signaled := range []verbs.SendFlags{0, verbs.Signaled} {
			t.Run(fmt.Sprintf("%s/%v", kind, signaled), func(t *testing.T) {
				t.Parallel()
				server, client, log := faultPair(t, kind, "complete write REM_ACCESS_ERR nth 2; late 3ms nth 1")
				mr, err := server.PD().RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
				if err != nil {
					t.Fatal(err)
				}
				qp, cq := client.QP(), client.CQ()
				for i := range 3 {
					flags := signaled
					if i == 2 {
						flags = verbs.Signaled
					}
					wr := &verbs.SendWR{ID: uint64(100 + i), Op: verbs.OpWrite, Flags: flags, Inline: []byte("hello"),
						Remote: mr.Remote()}
					if err := qp.PostSend(wr); err != nil && i < 2 {
						t.Fatal(err)
					}
				}
				var got []verbs.WC
				ctx := faultContext(t)
				for len(got) == 0 || got[len(got)-1].ID != 102 {
					var wcs [4]verbs.WC
					n, err := cq.Wait(ctx, wcs[:])
					if err != nil {
						t.Fatalf("%v after %v", err, got)
					}
					for _, wc := range wcs[:n] {
						if wc.ID >= 100 && wc.ID <= 102 {
							got = append(got, wc)
						}
					}
				}
				if signaled != 0 {
					if got[0].ID != 100 || got[0].Status != verbs.StatusSuccess {
						t.Errorf("the first: %+v", got[0])
					}
					got = got[1:]
				}
				if got[0].ID != 101 || got[0].Status != verbs.StatusRemoteAccessError || len(got) != 2 ||
					got[1].Status != verbs.StatusWRFlushError {
					t.Errorf("completions %+v\n%v", got, log)
				}
				if s := qp.State(); s != verbs.StateError {
					t.Errorf("the queue pair is in %v", s)
				}
				if f := qp.Failure(); f == nil || f.ID != 101 || f.Status != verbs.StatusRemoteAccessError {
					t.Errorf("its failure is %v", f)
				}
			})
		}
	}
}

// TestFaultEvents: events come at their time, or with a work request.
func TestFaultEvents(t *testing.T) {
	dev, log := openWithFaults(t, "roce",
		"event PORT_ERR after 1ms; event GID_CHANGE; down after 2ms for 1ms; event QP_FATAL qp 2nd nth 2")
	seen := map[verbs.EventType]int{}
	ctx := faultContext(t)
	for seen[verbs.EventPortError] < 2 || seen[verbs.EventGIDChange] < 1 || seen[verbs.EventPortActive] < 1 {
		e, err := dev.Event(ctx)
		if err != nil {
			t.Fatalf("%v: %v\n%v", err, seen, log)
		}
		seen[e.Type]++
	}
	pd, _ := dev.AllocPD()
	cq, _ := dev.CreateCQ(16, nil)
	var qps [2]*verbs.QP
	for i := range qps {
		var err error
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq}); err != nil {
			t.Fatal(err)
		}
		if err := qps[i].StartUD(1); err != nil {
			t.Fatal(err)
		}
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	ah, err := pd.CreateAH(verbs.AHAttr{DGID: gids[0].GID})
	if err != nil {
		t.Fatal(err)
	}
	for _, qp := range []*verbs.QP{qps[0], qps[1], qps[0], qps[1]} {
		if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("x"), AH: ah, RemoteQPN: qp.Num(),
			RemoteQKey: 1}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := dev.Event(ctx)
	if err != nil || e.Type != verbs.EventQPFatal || e.QP != qps[1] {
		t.Errorf("event %v, %v", e, err)
	}
	if qps[0].State() != verbs.StateRTS || qps[1].State() != verbs.StateError {
		t.Errorf("queue pairs are in %v and %v", qps[0].State(), qps[1].State())
	}
}

// TestFaultsOfConnections: connections survive the loss of a message, and do not without any.
func TestFaultsOfConnections(t *testing.T) {
	for _, m := range []string{"REQ", "REP", "RTU"} {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			server, client, log := faultPair(t, "roce", "loss nth 1 of "+m)
			exchange(t, server, client, 1)
			if !strings.Contains(log.String(), "loss nth 1 of "+m) {
				t.Errorf("the log is\n%v", log)
			}
		})
	}
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run("failures-"+kind, func(t *testing.T) {
			t.Parallel()
			failedConnections(t, kind)
		})
		t.Run("disconnect-"+kind, func(t *testing.T) {
			t.Parallel()
			server, client, _ := faultPair(t, kind, "disconnect nth 3")
			ctx := faultContext(t)
			for range 3 {
				_ = client.Send(ctx, make([]byte, 10))
			}
			for _, c := range []*cm.Conn{server, client} {
				select {
				case <-c.Done():
				case <-ctx.Done():
					t.Fatal("the connection has not ended")
				}
			}
		})
	}
	t.Run("partition", func(t *testing.T) {
		a, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("roce:" + addr) })
		b, log := openWithFaults(t, "roce", "partition peer "+addr.String())
		l, err := cm.Listen(t.Context(), a, ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(faultContext(t))
		defer cancel()
		dialed := make(chan error, 1)
		go func() { _, err := cm.Dial(ctx, b, l.Addr().String()); dialed <- err }()
		for !strings.Contains(log.String(), "partition") {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				t.Fatal("no request meets the partition")
			}
		}
		cancel()
		if err := <-dialed; err == nil {
			t.Error("a request has passed")
		}
	})
}

// failedConnections has requests fail in each way.
func failedConnections(t *testing.T, kind string) {
	a, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + ":" + addr) })
	b, log := openWithFaults(t, kind,
		"reject 8 sent nth 1; fail resolve_addr ETIMEDOUT nth 1; fail resolve_route ENODEV nth 1")
	l, err := cm.Listen(t.Context(), a, ":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			c.Close()
		}
	})
	defer accepting.Wait()
	defer l.Close()
	defer cancel()
	dial := func() error {
		c, err := cm.Dial(ctx, b, l.Addr().String())
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := dial(); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("the address: %v", err)
	}
	if err := dial(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("the route: %v", err)
	}
	var rejected *cm.RejectError
	if err := dial(); !errors.As(err, &rejected) || rejected.Reason != 8 {
		t.Errorf("the request: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("%v\n%v", err, log)
	}
	if err := ramjet.SetFaults(a, "reject 30 received nth 1", log); err != nil {
		t.Fatal(err)
	}
	if err := dial(); !errors.As(err, &rejected) || kind == "roce" && rejected.Reason != 30 {
		t.Errorf("the request of a peer: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("%v\n%v", err, log)
	}
}

// TestFaultsReplay: the log of a run is the faults of the next.
func TestFaultsReplay(t *testing.T) {
	t.Parallel()
	server, client, log := faultPair(t, "roce", "seed 3; loss 10% of send sent")
	exchange(t, server, client, 20)
	client.Close()
	client.QP().Device().Close()
	var faults []string
	for line := range strings.Lines(log.String()) {
		fault, _, _ := strings.Cut(line, "  #")
		if strings.HasPrefix(fault, "loss") {
			fault, _, _ = strings.Cut(fault, " device")
			faults = append(faults, fault)
		}
	}
	if len(faults) == 0 {
		t.Fatalf("the log is\n%v", log)
	}
	server, client, again := faultPair(t, "roce", strings.Join(faults, "\n"))
	exchange(t, server, client, 20)
	for _, f := range faults[:1] {
		if !strings.Contains(again.String(), f) {
			t.Errorf("%s has not struck again:\n%v", f, again)
		}
	}
}

// TestFaultsFromOutside: a process that may see another may set its faults, and a typing error changes nothing.
func TestFaultsFromOutside(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes see each other's devices on Linux only")
	}
	server, client, log := faultPair(t, "roce", "loss nth 1000")
	dev := client.QP().Device()
	ask := func(text string) (string, error) {
		r := &observe.FaultRequest{Set: text != "show", Device: dev.Name(), Text: strings.TrimPrefix(text, "show")}
		ctx := faultContext(t)
		all, err := statsocket.Faults(ctx, os.Getpid(), r)
		// It gives up after seconds, in which a busy machine may not let this process answer.
		for err != nil && strings.Contains(err.Error(), "it is stopped, or busy") && ctx.Err() == nil {
			all, err = statsocket.Faults(ctx, os.Getpid(), r)
		}
		if err != nil {
			return "", err
		}
		if len(all) != 1 || all[0].Name != dev.Name() {
			t.Fatalf("%+v", all)
		}
		var lines []string
		for _, f := range all[0].Faults {
			lines = append(lines, f.String())
		}
		return strings.Join(lines, "\n"), nil
	}
	if got, err := ask("show"); err != nil || !strings.Contains(got, "loss nth 1000: never struck") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask("los 1%"); err == nil || !strings.Contains(err.Error(), "line 1, column 1") {
		t.Error(err)
	}
	if got, err := ask("duplicate every 2"); err != nil || !strings.Contains(got, "duplicate every 2: never struck") {
		t.Errorf("%q, %v", got, err)
	}
	exchange(t, server, client, 3)
	if got, err := ask("show"); err != nil || !strings.Contains(got, "duplicate every 2: struck") {
		t.Errorf("%q, %v", got, err)
	}
	for _, when := range []string{"", "show"} {
		if got, err := ask(when); err != nil || !strings.HasPrefix(got, "duplicate every 2: struck ") ||
			!strings.HasSuffix(got, " packets, and has ended") {
			t.Errorf("%q, %v", got, err)
		}
	}
	counted := loopback.Counter(t, dev, "injected_faults_duplicate")
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"duplicate nth 2", " packets, and has ended\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%v", want, log)
		}
	}
	if counted == 0 {
		t.Error("the device counts no faults any more")
	}
}

// TestFaultsInRecordings: a recording has the fault beside each packet that it struck, and watchers of a queue pair see
// it.
func TestFaultsInRecordings(t *testing.T) {
	for _, kind := range []string{"roce", "infiniband"} {
		for _, text := range []string{"loss every 7 sent", "loss every 7 received", "duplicate every 3 sent",
			"corrupt every 7 sent", "corrupt every 7 received", "delay 100us sent", "rnr every 4 times 3"} {
			t.Run(kind+"/"+strings.ReplaceAll(text, " ", "-"), func(t *testing.T) {
				t.Parallel()
				var file bytes.Buffer
				w, err := trace.NewWriter(&file, "test")
				if err != nil {
					t.Fatal(err)
				}
				server, client := recordedPair(t, kind, w)
				dev := client.QP().Device()
				if err := ramjet.SetFaults(dev, "seed 1; "+text, &testrun.Buffer{}); err != nil {
					t.Fatal(err)
				}
				watched, err := observe.StartCapture(dev.Name(), client.QP().Num())
				if err != nil {
					t.Fatal(err)
				}
				defer watched.Close()
				exchange(t, server, client, 5)
				word, _, _ := strings.Cut(text, " ")
				kept := watched.Last(1000)
				if !slices.ContainsFunc(kept.Packets,
					func(p observe.Packet) bool { return p.Comment == "injected: "+word }) {
					t.Errorf("no packet that was watched says that %s was injected", word)
				}
				dev.Close()
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				marked, lost := 0, 0
				if _, err := capture.ReadFrom(bytes.NewReader(file.Bytes()), func(p *capture.Packet) {
					if k := faults.OfComment(p.Comment); k != 0 {
						marked++
						if k.Lost() {
							lost++
						}
					}
				}); err != nil {
					t.Fatal(err)
				}
				if marked == 0 || (lost > 0) != (word == "loss") {
					t.Errorf("%d packets of the recording are marked, %d as lost", marked, lost)
				}
			})
		}
	}
}

// TestFaultsInRecordedStreams: so do segments of iWARP. A stream loses nothing: segments that a partition held back
// have come.
func TestFaultsInRecordedStreams(t *testing.T) {
	for _, c := range []struct {
		text, word string
		fails      bool
	}{
		{"delay 100us every 3 sent", "delay", false}, {"delay 100us every 3 received", "delay", false},
		{"rate 100mbit sent", "rate", false}, {"partition peer 127.0.0.0/8 for 50ms", "partition", false},
		{"down for 50ms", "down", false},
		{"corrupt nth 4 sent", "corrupt", true}, {"corrupt nth 4 received", "corrupt", true},
	} {
		t.Run(c.text, func(t *testing.T) {
			var file bytes.Buffer
			w, err := trace.NewWriter(&file, "test")
			if err != nil {
				t.Fatal(err)
			}
			server, client := recordedPair(t, "iwarp", w)
			dev := client.QP().Device()
			watched, err := observe.StartCapture(dev.Name(), client.QP().Num())
			if err != nil {
				t.Fatal(err)
			}
			defer watched.Close()
			if !c.fails {
				strike(t, dev, "seed 1; "+c.text, c.word, func() { exchange(t, server, client, 5) })
			} else {
				if err := ramjet.SetFaults(dev, "seed 1; "+c.text, &testrun.Buffer{}); err != nil {
					t.Fatal(err)
				}
				for ctx := faultContext(t); err == nil; {
					if err = client.Send(ctx, make([]byte, 100)); err == nil {
						err = answer(ctx, server, client)
					}
				}
			}
			isMarked := func(p observe.Packet) bool { return p.Comment == "injected: "+c.word }
			if kept := watched.Last(1000); !c.fails && !slices.ContainsFunc(kept.Packets, isMarked) {
				t.Errorf("no segment that was watched says that %s was injected", c.word)
			}
			dev.Close()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			survey, err := ladder.Take(func(to func(*capture.Packet)) (capture.Counts, error) {
				return capture.ReadFrom(bytes.NewReader(file.Bytes()), to)
			})
			if err != nil {
				t.Fatal(err)
			}
			l, err := survey.Draw(ladder.Options{Conversations: survey.Conversations, All: true})
			if err != nil {
				t.Fatal(err)
			}
			marked, wrong := 0, 0
			for i := range l.Rows {
				r := &l.Rows[i]
				if r.Marks&ladder.Injected != 0 && slices.Contains(r.Notes, "injected: "+c.word) {
					marked++
				}
				if r.Marks&ladder.Lost != 0 {
					t.Errorf("row %d is marked as lost: %s %q", i, r.Op, r.Notes)
				}
				if r.Marks&ladder.BadCRC != 0 {
					wrong++
				}
			}
			if marked == 0 || marked == len(l.Rows) || (wrong > 0) != c.fails {
				t.Errorf("%d of %d segments are marked, %d have a wrong CRC", marked, len(l.Rows), wrong)
			}
		})
	}
}

// recordedPair connects two devices, of which the dialing one is recorded.
func recordedPair(t *testing.T, kind string, w *trace.Writer) (server, client *cm.Conn) {
	if kind == "infiniband" {
		f := softfabric.Start(t, "star:2")
		a, err := f.Open("host-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := f.Open("host-2", &infiniband.Options{Trace: w})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close(); b.Close() })
		return rdmatest.Conns(t, a, b)
	}
	a, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + ":" + addr) })
	b, _ := loopback.Open(t, func(addr string) (*verbs.Device,
		error) {
		return ramjet.Open(kind+":"+addr, ramjet.WithTrace(w))
	})
	return rdmatest.Conns(t, a, b)
}

// TestFaultsObserved: others see how often faults have struck a device, and each queue pair until it is destroyed.
func TestFaultsObserved(t *testing.T) {
	server, client, _ := faultPair(t, "roce", "late 1us every 2")
	exchange(t, server, client, 5)
	dev, qp := client.QP().Device(), client.QP()
	of := func(n verbs.QPN) string {
		var b bytes.Buffer
		if err := new(observe.Writer).Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		p, err := observe.Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Devices {
			if p.Devices[i].Name == dev.Name() {
				return p.Devices[i].InjectedText(n)
			}
		}
		return "no device"
	}
	if all, one := of(0), of(qp.Num()); !strings.HasSuffix(all, " late") || all != one {
		t.Errorf("%q, of the queue pair %q", all, one)
	}
	client.Close()
	if all, one := of(0), of(qp.Num()); !strings.HasSuffix(all, " late") || one != "" {
		t.Errorf("without the queue pair %q, %q", all, one)
	}
}
