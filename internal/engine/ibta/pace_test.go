// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPace holds that packets without acknowledgements wait for a slow peer on the same host, up to a
// limit, and that none is lost by that.
func TestPace(t *testing.T) {
	s := start(t, verbs.UC, func(o *options) { o.config.Caps.MaxSendWR = 4000 })
	full, asked := false, 0
	s.host.Device.Limits.Window = 200 << 10
	s.host.full = func() bool {
		asked++
		return full
	}
	const n, size = 2000, mtu
	post := func() {
		t.Helper()
		for i := range n {
			if _, err := s.q.PostSend([]verbs.SendWR{s.send(uint64(i), size)}); err != nil {
				t.Fatal(err)
			}
		}
		s.drain()
	}
	post()
	if len(s.out) != n || asked == 0 {
		t.Fatalf("%d packets to an empty buffer, want %d, which was looked at %d times", len(s.out), n, asked)
	}
	s.out, s.wcs = nil, nil
	full = true
	post()
	sent := len(s.out)
	if sent == 0 || sent > n/2 {
		t.Fatalf("%d of %d packets to a full buffer", sent, n)
	}
	for range 10 {
		s.pass(time.Millisecond)
	}
	if len(s.out) != sent {
		t.Fatalf("%d packets more to a full buffer", len(s.out)-sent)
	}
	full = false
	s.pass(time.Millisecond)
	if len(s.out) != n || len(s.wcs) != n {
		t.Fatalf("%d packets and %d completions, want %d", len(s.out), len(s.wcs), n)
	}
	s.out, s.wcs = nil, nil
	full = true // of a program that was stopped
	post()
	for range 1100 {
		s.pass(time.Millisecond)
	}
	if len(s.out) != n || len(s.wcs) != n {
		t.Fatalf("%d packets and %d completions in the end, want %d", len(s.out), len(s.wcs), n)
	}
	s.out, s.wcs = nil, nil
	full = false // the program goes on, and is waited for again
	post()
	s.out, s.wcs = nil, nil
	full = true
	post()
	if len(s.out) > n/2 {
		t.Fatalf("%d of %d packets to a buffer that is full once more", len(s.out), n)
	}
	full = false
	s.pass(time.Millisecond)
	s.out, s.wcs = nil, nil
	s.idle()
}
