// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestAnnouncedEarly reads from the server, and sends on what it has read.
func TestAnnouncedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		wait  bool            // for the READ
		flags verbs.SendFlags // of the SEND
		off   int             // where the SEND begins
		other bool            // queue pair
		rules []string
	}{
		"at once":     {rules: []string{"announced-early"}},
		"fenced":      {flags: verbs.Fence},
		"polled":      {wait: true},
		"elsewhere":   {off: 256},
		"part fenced": {flags: verbs.Fence, off: 50},
		"another":     {flags: verbs.Fence, other: true, rules: []string{"announced-early"}},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(w *shared) {
				for i := range 100 {
					w.mr.Bytes()[i] = byte(i + 1)
				}
				sender, server := w.clients[0], w.qps[0]
				if c.other {
					sender, server = w.second(0), w.lastServer
				}
				w.ok(server.PostRecv(&verbs.RecvWR{ID: 3, SGL: []verbs.SGE{w.mr.SGE(4096, 200)}}))
				w.post(0, verbs.OpRead, 0, 100)
				if c.wait {
					w.done(0)
				}
				w.ok(sender.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled | c.flags,
					SGL: []verbs.SGE{sender.mr.SGE(c.off, 100)}}))
				if !c.wait {
					w.done(0)
				}
				w.wait(sender.cq)
				w.wait(w.cq)
				if got := w.mr.Bytes()[4096:]; c.rules == nil && c.off < 100 &&
					(got[0] != byte(c.off+1) || got[99-c.off] != 100) {
					t.Errorf("sent %d .. %d", got[0], got[99-c.off])
				}
				w.exit(c.rules...)
			})
		})
	}
}
