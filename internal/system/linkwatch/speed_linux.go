// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Speed returns the speed of an interface in Mbit/s. It is 0 if there is none, as on loopback, or
// if the driver does not report it (sysfs-class-net), or reports a number that means nothing.
func Speed(name string) int64 {
	if name == "" || inMemory(name, maxLower) {
		return 0
	}
	b, err := os.ReadFile(filepath.Join("/sys/class/net", name, "speed"))
	if err != nil {
		return 0
	}
	return parseSpeed(string(b))
}

// maxLower is how deep interfaces may be stacked, as in the kernel (MAX_NEST_DEV).
const maxLower = 8

// inMemory reports whether an interface moves packets in memory alone: whether its driver does, or the drivers of all
// interfaces below it, such as the ports of a bridge. The kernel has to give such a link a speed, so that bridges and
// bonds can compare it: 10 Gbit/s for a pair of virtual interfaces, 10 Mbit/s for a tunnel to a program. It is not the
// link's real speed, which depends on the processors.
func inMemory(name string, depth int) bool {
	stacked := false
	files, _ := os.ReadDir(filepath.Join("/sys/class/net", name))
	for _, f := range files {
		if lower, is := strings.CutPrefix(f.Name(), "lower_"); is && depth > 0 {
			stacked = true
			if !inMemory(lower, depth-1) {
				return false
			}
		}
	}
	if stacked {
		return true
	}
	d := driver(name)
	return d == "veth" || d == "tun"
}

// driver returns the name of an interface's driver; empty: it tells none.
func driver(name string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// parseSpeed parses the kernel's text: a number, or -1 if unknown.
func parseSpeed(s string) int64 {
	const unknown = 1<<32 - 1 // -1 as some drivers write it
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 || n >= unknown {
		return 0
	}
	return n
}
