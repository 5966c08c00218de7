// SPDX-License-Identifier: Apache-2.0

package devicescmd

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// The longest names that interfaces and their link-local addresses have fit into 80 columns, and so do the reasons why
// devices cannot be opened.
func TestDevicesFit(t *testing.T) {
	port := &portAttr{ActiveMTU: "4096"}
	found := []Info{{Name: "shm:127.0.0.1", Openable: true, Up: true, Port: port},
		{Name: "iwarp:fe80::28b3:4dff:feb7:f6b8%interface-of-15", NetDev: "interface-of-15", Openable: true,
			Port: port},
		{Name: "roce:192.0.2.1", NetDev: "eth0", Up: true,
			Problem: "UDP port 4791 of 192.0.2.1 is in use: " + strings.Repeat("it is a long story ", 20)}}
	var b strings.Builder
	if err := writeDeviceList(&b, found, true, 0, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 || strings.HasSuffix(line, " ") {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	if n := strings.Count(strings.Join(strings.Fields(b.String()), " "), "long story"); n != 20 {
		t.Errorf("the problem is cut:\n%s", b.String())
	}
}

func TestAckDelay(t *testing.T) {
	for d, want := range map[time.Duration]uint8{0: 0, 4096: 0, 4097: 1, 16 * time.Millisecond: 12,
		time.Hour * 24 * 365: 31} {
		if got := ackDelay(d); got != want {
			t.Errorf("%v is %d, want %d", d, got, want)
		}
	}
}

// On a terminal states have colors, and a narrow one has only the columns for which there is room.
func TestDeviceListNarrow(t *testing.T) {
	found := []Info{{Name: "roce:127.0.0.1", NetDev: "lo", Up: true, Openable: true,
		Port: &portAttr{ActiveMTU: "4096"}},
		{Name: "iwarp:127.0.0.1", NetDev: "lo",
			Problem: "somebody else has its port, which is all that there is to say"}}
	for _, width := range []int{20, 30, 40, 80} {
		var plain, colors strings.Builder
		writeDeviceList(&plain, found, false, width, false)
		writeDeviceList(&colors, found, false, width, true)
		for line := range strings.Lines(plain.String()) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if strings.Contains(plain.String(), "MTU") != (width >= 40) ||
			strings.Contains(plain.String(), "STATE") != (width >= 30) {
			t.Errorf("%d columns:\n%s", width, plain.String())
		}
		if got := testrun.Plain(colors.String()); got != plain.String() ||
			!strings.Contains(colors.String(), cli.ColorRed) {
			t.Errorf("colors:\n%s\nnone:\n%s", colors.String(), plain.String())
		}
	}
}
