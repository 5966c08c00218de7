// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"10000\n", 10000}, {"1000", 1000}, {"-1\n", 0}, {"4294967295\n", 0}, {"", 0}, {"fast\n", 0},
	} {
		if got := parseSpeed(c.text); got != c.want {
			t.Errorf("%q: %d Mbit/s, want %d", c.text, got, c.want)
		}
	}
	for _, name := range []string{"", "lo", "no such interface", "../lo"} {
		if got := Speed(name); got != 0 {
			t.Errorf("interface %q: %d Mbit/s", name, got)
		}
	}
}

// The kernel reports 10 Gbit/s for a pair of virtual interfaces, and for a bridge between such, at any real speed.
func TestSpeedInMemory(t *testing.T) {
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	loopback.SetUp(t, "link add left type veth peer name right", "link set left up", "link set right up",
		"link add bridge0 type bridge", "link set left master bridge0", "link set bridge0 up")
	runtime.LockOSThread() // and never unlock: this thread has a /sys of its own
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skip(err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"left", "bridge0", "lo"} {
		if got := Speed(name); got != 0 {
			t.Errorf("%s: %d Mbit/s", name, got)
		}
	}
}
