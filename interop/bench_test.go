// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// The tests of this file are about the bench itself.

func TestGuestInfo(t *testing.T) {
	g := dialGuest(t, false)
	g.call("ping", nil, nil)
	var info struct {
		Kernel    string
		GIDs      []string
		ActiveMTU int `json:"active_mtu"`
	}
	g.call("info", nil, &info)
	t.Logf("%+v", info)
	for _, address := range []string{guestIPv4, guestIPv6} {
		want := mustGID(t, address)
		if !slices.ContainsFunc(info.GIDs, func(s string) bool { return mustGID(t, s) == want }) {
			t.Errorf("no GID for %s", address)
		}
	}
	if info.ActiveMTU != 4096 {
		t.Errorf("active MTU %d, want 4096", info.ActiveMTU)
	}
	var answer struct{ Counters map[string]int }
	g.call("counters", nil, &answer)
	for _, name := range []string{"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request"} {
		if _, ok := answer.Counters[name]; !ok {
			t.Errorf("no counter %s in %v", name, answer.Counters)
		}
	}
}

// TestGuestMemory compares the guest's pattern with ours, over more than its period.
func TestGuestMemory(t *testing.T) {
	g := dialGuest(t, false)
	const n = 17<<20 + 3
	r := g.region(n+5, verbs.LocalWrite).(*guestRegion)
	r.fill(200, 5, n)
	var answer struct{ SHA256 string }
	g.call("mr_hash", args{"mr": r.Handle, "off": 5, "len": n}, &answer)
	if want := sha256.Sum256(pattern(200, n)); answer.SHA256 != hex.EncodeToString(want[:]) {
		t.Error("the guest has another pattern")
	}
	if at := r.differs(200, 5, n); at != -1 {
		t.Errorf("byte %d differs", at)
	}
	r.set(5+100, []byte{0, 1, 2})
	if got := r.bytes(5+100, 3); !bytes.Equal(got, []byte{0, 1, 2}) {
		t.Errorf("read back % x", got)
	}
	if at := r.differs(200, 5, n); at != 100 {
		t.Errorf("first difference at %d, want 100", at)
	}
}

// TestGuestErrors makes requests that cannot be carried out: each is an answer, and the connection
// goes on.
func TestGuestErrors(t *testing.T) {
	g := dialGuest(t, false)
	for _, c := range []struct {
		cmd   string
		args  args
		errno string
	}{
		{"no_such_command", nil, ""},
		{"mr_reg", args{"size": 4096, "access": []string{"REMOTE_WRITE"}}, "EINVAL"},
		{"mr_reg", args{"size": 4096, "access": []string{"NO_SUCH_FLAG"}}, ""},
		{"mr_read", args{"mr": "mr99", "off": 0, "len": 1}, ""},
		{"qp_create", args{"type": "RC", "address": "192.0.2.1"}, ""},
		{"run", args{"argv": []string{"/no/such/program"}}, "ENOENT"},
		{"ping", args{"surplus": 1}, ""},
	} {
		err := g.try(c.cmd, c.args, nil)
		var guestErr *guestError
		if !errors.As(err, &guestErr) || guestErr.Errno != c.errno {
			t.Errorf("%s %v: %v, want errno %q", c.cmd, c.args, err, c.errno)
		}
	}
	g.call("ping", nil, nil)
}

// TestGuestPrograms runs programs that end well, badly and never.
func TestGuestPrograms(t *testing.T) {
	g := dialGuest(t, false)
	if r := g.run(programTimeout, "sh", "-c", "echo out; echo err >&2; exit 3"); r.Exit != 3 ||
		r.Output != "out\nerr\n" || r.TimedOut {
		t.Errorf("%+v", r)
	}
	if r := g.run(300*time.Millisecond, "sleep", "1000"); !r.TimedOut {
		t.Errorf("%+v", r)
	}
	j := g.spawn(0, "sleep", "0.1")
	if r := j.wait(programTimeout); r.Exit != 0 || r.TimedOut {
		t.Errorf("%+v", r)
	}
}
