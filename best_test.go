// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet"
)

// TestBest names shared memory first for a peer on this host, and not at all for another.
func TestBest(t *testing.T) {
	names := best(t, "127.0.0.1")
	if !slices.Contains(names, "roce:127.0.0.1") {
		t.Errorf("%q do not have RoCE", names)
	}
	if runtime.GOOS == "linux" && names[0] != "shm:" {
		t.Errorf("%q do not begin with shared memory", names)
	}
	for _, name := range names {
		dev, err := ramjet.Open(name)
		if errors.Is(err, syscall.EADDRINUSE) {
			t.Logf("not tried: %v", err) // of another process
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		dev.Close()
	}
	if _, err := ramjet.Best(netip.MustParseAddr("192.0.2.200")); err != nil {
		t.Skip("there is no network here: ", err)
	}
	for _, name := range best(t, "192.0.2.200") {
		if strings.HasPrefix(name, "shm:") {
			t.Errorf("%s: shared memory does not reach another host", name)
		}
	}
}

// best returns the names of Best's choices, each of which has a reason.
func best(t *testing.T, peer string) (names []string) {
	t.Helper()
	choices, err := ramjet.Best(netip.MustParseAddr(peer))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range choices {
		if c.Reason == "" {
			t.Errorf("%s has no reason", c.Name)
		}
		names = append(names, c.Name)
	}
	return names
}

// The environment names a device, and errors of it name the variable.
func TestEnvironment(t *testing.T) {
	peer := netip.MustParseAddr("127.0.0.1")
	for value, want := range map[string]string{
		"":                 "ramjet: no device is named, and RAMJET_DEVICE names none either",
		"192.0.2.7":        `ramjet: RAMJET_DEVICE: "192.0.2.7" is no device name`,
		"rose:192.0.2.7":   `ramjet: RAMJET_DEVICE: "rose:192.0.2.7": no device kind "rose"`,
		"roce:203.0.113.7": "ramjet: RAMJET_DEVICE: ",
	} {
		t.Setenv("RAMJET_DEVICE", value)
		if _, err := ramjet.Open(""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
		if value == "" {
			continue
		}
		if _, _, err := ramjet.OpenFor(peer); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: for a peer: %v", value, err)
		}
	}
	t.Setenv("RAMJET_DEVICE", "iwarp+sctp:127.0.0.1")
	dev, choice, err := ramjet.OpenFor(peer)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if dev.Name() != "iwarp+sctp:127.0.0.1" || choice.Name != dev.Name() || choice.Reason != "RAMJET_DEVICE names it" {
		t.Errorf("%s, %+v", dev.Name(), choice)
	}
}

// Without the environment the first choice is opened, and says so.
func TestOpenFor(t *testing.T) {
	t.Setenv("RAMJET_DEVICE", "")
	dev, choice, err := ramjet.OpenFor(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if names := best(t, "127.0.0.1"); choice.Name != names[0] || choice.Reason == "" {
		t.Errorf("%+v, and the best are %q", choice, names)
	}
}
