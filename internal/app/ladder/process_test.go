// SPDX-License-Identifier: Apache-2.0

package ladder_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// kept are devices of the fabrics whose packets a process can keep.
var kept = map[string]func(t *testing.T) (a, b *verbs.Device){
	"RoCEv2": func(t *testing.T) (a, b *verbs.Device) {
		return two(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	},
	"iWARP": func(t *testing.T) (a, b *verbs.Device) {
		return two(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) })
	},
	"InfiniBand": func(t *testing.T) (a, b *verbs.Device) {
		f := softfabric.Start(t, "star:2")
		open := func(name string) *verbs.Device {
			d, err := f.Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		}
		return open("host-1"), open("host-2")
	},
}

func two(t *testing.T, open func(string) (*verbs.Device, error)) (a, b *verbs.Device) {
	a, _ = loopback.Open(t, open)
	b, _ = loopback.Open(t, open)
	return a, b
}

// write carries out a WRITE.
func write(t *testing.T, from, to *pair.End, n int) {
	t.Helper()
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{from.MR.SGE(0, n)},
		Remote: to.MR.Remote()}
	if err := from.QP.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wcs := make([]verbs.WC, 1)
	for got := 0; got == 0; {
		var err error
		if got, err = from.CQ.Wait(ctx, wcs); err != nil {
			t.Fatal(err)
		}
	}
	if err := wcs[0].Status.Err(); err != nil {
		t.Fatal(err)
	}
}

// The last packets of a queue pair make a ladder, without their payload. Before and after nothing is kept.
func TestOfProcess(t *testing.T) {
	for name, open := range kept {
		t.Run(name, func(t *testing.T) {
			a, b := open(t)
			ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 64 << 10, Depth: 16})
			secret := bytes.Repeat([]byte("payload!"), 8<<10)
			ends[0].MR.Do(func(p []byte) { copy(p, secret) })
			write(t, &ends[0], &ends[1], 5000)
			var k, again *observe.Capture
			var last observe.Packets
			var s *ladder.Survey
			// On a busy machine an answer may be so late that the request is sent again: a fault of the conversation.
			for until := time.Now().Add(time.Minute); ; {
				var err error
				if k, err = observe.StartCapture(a.Name(), ends[0].QP.Num()); err != nil {
					t.Fatal(err)
				}
				if again, err = observe.StartCapture(a.Name(), ends[0].QP.Num()); err != nil {
					t.Fatal(err)
				}
				write(t, &ends[0], &ends[1], 10_000)
				last = k.Last(1000)
				s, err = ladder.Take(func(to func(*capture.Packet)) (capture.Counts, error) {
					return capture.FromProcess(&last, to)
				})
				if err != nil || len(s.Conversations) != 1 {
					t.Fatalf("%v, %+v", err, s)
				}
				if s.Conversations[0].Tally.Total() == 0 || time.Now().After(until) {
					break
				}
				k.Close()
				again.Close()
			}
			if len(last.Packets) == 0 || last.Seen != uint64(len(last.Packets)) {
				t.Fatalf("%d packets, %d seen", len(last.Packets), last.Seen)
			}
			for _, p := range last.Packets {
				if bytes.Contains(p.Head, secret[:8]) {
					t.Errorf("payload is in % x", p.Head)
				}
			}
			l, err := s.Draw(ladder.Options{Conversations: s.Conversations})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := l.WriteText(&text, ladder.Text{Width: 100}); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", &text)
			if c := s.Conversations[0]; c.Fabric.String() != name || c.Tally.Total() != 0 || len(l.Columns) != 2 ||
				!strings.Contains(strings.ToUpper(text.String()), "WRITE") {
				t.Errorf("%+v: %s", c, &text)
			}
			k.Close()
			k.Close()
			write(t, &ends[0], &ends[1], 1000)
			more := again.Last(1000)
			if more.Seen <= last.Seen {
				t.Errorf("another watcher does not see more: %d", more.Seen)
			}
			again.Close()
			write(t, &ends[0], &ends[1], 1000)
			if now := again.Last(1); now.Seen != more.Seen {
				t.Errorf("%d packets were kept for nobody", now.Seen-more.Seen)
			}
		})
	}
}

// A queue pair without packets says so, and so does a number that there is not.
func TestOfNoPackets(t *testing.T) {
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
	if _, err := observe.StartCapture(dev.Name(), 17); err == nil ||
		!strings.Contains(err.Error(), "shared memory has no packets") {
		t.Error(err)
	}
	dev, _ = loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	if _, err := observe.StartCapture(dev.Name(), 1<<24-2); err == nil || !strings.Contains(err.Error(), "no device") {
		t.Error(err)
	}
}
