// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPace holds that UC waits for a peer on this host whose device is held up, so that its
// socket's buffer is not overrun.
func TestPace(t *testing.T) {
	a, from := open(t, nil)
	b, to := open(t, nil)
	var queues netio.Queues
	defer queues.Close()
	if _, ok := queues.Received(netip.AddrPortFrom(from, 4791), netip.AddrPortFrom(to, 4791)); !ok {
		t.Skip("this system does not tell how full a socket's buffer is")
	}
	const size, depth, count = 64 << 10, 64, 512 // 32 MiB, more than any buffer here
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.UC, Size: size, Depth: depth})
	x, y := ends[0], ends[1]

	var wcs [depth]verbs.WC
	posted, done := 0, 0
	send := func() {
		t.Helper()
		for posted < count && posted-done < depth {
			if err := x.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{x.MR.SGE(0, size)}, Remote: y.MR.Remote()}); err != nil {
				t.Fatal(err)
			}
			posted++
		}
		for _, wc := range wcs[:x.CQ.Poll(wcs[:])] {
			if wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
			done++
		}
	}
	start, early := time.Now(), 0
	y.MR.Do(func([]byte) { // nothing is received meanwhile
		for done < count && time.Since(start) < 20*time.Millisecond {
			send()
		}
		early = done
	})
	if early == count && time.Since(start) < 50*time.Millisecond { // else it may have given up
		t.Errorf("%d messages of %d bytes were sent to a socket that nobody read", count, size)
	}
	for done < count {
		send()
	}
}
