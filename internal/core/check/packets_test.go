// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestLadder: a report of a queue pair has its last packets, the oldest first, and not many.
func TestLadder(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, z := w.ends[0], w.ends[1]
	write := func(size int, key verbs.Key) {
		remote := z.MR.Remote()
		w.ok(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(0, size)},
			Remote: verbs.Remote{Addr: remote.Addr, Key: key}}))
	}
	for i := range 20 { // their packets are not all alike
		write(64+i%2*4000, z.MR.RKey())
		w.wait(a.CQ)
	}
	write(64, 1)
	for end := time.Now().Add(time.Minute); a.QP.State() != verbs.StateError; { // nobody polls
		if time.Now().After(end) {
			t.Fatal("the queue pair goes on")
		}
		time.Sleep(time.Millisecond)
	}
	w.ok(a.QP.Close())
	w.want("completion-error-unread")
	text := w.text.String()
	if !regexp.MustCompile(`(?s)which is on the left:\n.*├── RC RDMA Write Only  PSN \d+  64 B ─+▶│\n.*│◀─+ NAK.*PSN \d+ ──┤\n  What to do`).MatchString(text) {
		t.Errorf("the report is\n%s", text)
	}
	if n := strings.Count(text, "│\n") + strings.Count(text, "┤\n"); n != 10 {
		t.Errorf("%d rows in\n%s", n, text)
	}
	t.Log(text)
}
