// SPDX-License-Identifier: Apache-2.0

package statsocket_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// connected returns a queue pair of this process that has a peer, and a function that sends a message.
func connected(t *testing.T) (dev *verbs.Device, n verbs.QPN, send func()) {
	t.Helper()
	open := func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) }
	dev, _ = loopback.Open(t, open)
	other, _ := loopback.Open(t, open)
	ends := pair.Connect(t, dev, other, pair.Options{Type: verbs.RC, Size: 4096, Depth: 16})
	return dev, ends[0].QP.Num(), func() {
		t.Helper()
		wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{ends[0].MR.SGE(0, 100)},
			Remote: ends[1].MR.Remote()}
		if err := ends[0].QP.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		if _, err := ends[0].CQ.Wait(t.Context(), make([]verbs.WC, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func watch(t *testing.T, device string, n verbs.QPN) *statsocket.Watcher {
	t.Helper()
	w, err := statsocket.Watch(t.Context(), os.Getpid(), device, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// A watcher is given the packets since it came.
func TestWatch(t *testing.T) {
	dev, n, send := connected(t)
	send()
	w := watch(t, dev.Name(), n)
	p, err := w.Last(t.Context(), 100)
	if err != nil || len(p.Packets) != 0 || p.Wire != observe.RoCEv2 {
		t.Fatalf("%+v, %v", p, err)
	}
	for range 5 {
		send()
	}
	for end := time.Now().Add(time.Minute); ; {
		if p, err = w.Last(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		// An acknowledgement each. What a late peer has read, and not acknowledged in time, is sent again.
		if n := len(p.Packets); n == 10 || n > 10 && loopback.Counter(t, dev, "rewinds") > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d packets", len(p.Packets))
		}
	}
	if p, err = w.Last(t.Context(), 3); err != nil || len(p.Packets) != 3 || p.Seen < 10 {
		t.Errorf("%+v, %v", p, err)
	}
	dev.Close()
	if p, err = w.Last(t.Context(), 3); err != nil || len(p.Packets) != 3 { // the other device is open
		t.Errorf("%+v, %v", p, err)
	}
}

func TestWatchRefused(t *testing.T) {
	dev, n, _ := connected(t)
	for _, c := range []struct {
		device string
		n      verbs.QPN
		want   string
	}{{dev.Name(), n + 1, "no device"}, {"roce:192.0.2.1", n, "no device"}} {
		w := watch(t, c.device, c.n)
		if p, err := w.Last(t.Context(), 10); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d: %+v, %v", c.device, c.n, p, err)
		}
	}
	if _, err := statsocket.Watch(t.Context(), 1<<30, dev.Name(), n); err == nil ||
		!strings.Contains(err.Error(), "no open device") {
		t.Error(err)
	}
}

// The number of watchers is limited; a watcher that goes makes room.
func TestManyWatchers(t *testing.T) {
	dev, n, _ := connected(t)
	var all []*statsocket.Watcher
	for range statsocket.MaxWatchers {
		w := watch(t, dev.Name(), n)
		if _, err := w.Last(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	if p, err := watch(t, dev.Name(), n).Last(t.Context(), 1); err == nil {
		t.Errorf("one more is served: %+v", p)
	}
	all[0].Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := watch(t, dev.Name(), n).Last(t.Context(), 1); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Watchers that do not ask again are disconnected, and so are watchers that send something else.
func TestLease(t *testing.T) {
	addr, left, end, err := statsocket.ServeWatchers(fmt.Sprintf("@ramjet-test/%d", os.Getpid()), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, say := range []string{"", "GET / HTTP/1.1\r\n\r\n", "ramjetP\x01\x01\x00",
		"ramjetP\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		var c net.Conn
		for {
			var err error
			if c, err = net.Dial("unix", addr.String()); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(say)); err == nil {
				break
			} else if !errors.Is(err, syscall.EPIPE) { // else the lease has ended before
				t.Fatal(err)
			}
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil || os.IsTimeout(err) {
			t.Errorf("%q: %d bytes, %v", say, n, err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n := left()
		if n == 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d watchers are left", n)
		}
	}
}
