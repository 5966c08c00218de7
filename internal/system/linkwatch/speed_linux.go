// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Speed returns the speed of an interface in Mbit/s. It is 0 if there is none, as on loopback, or
// if the driver does not report it (sysfs-class-net).
func Speed(name string) int64 {
	if name == "" {
		return 0
	}
	b, err := os.ReadFile(filepath.Join("/sys/class/net", name, "speed"))
	if err != nil {
		return 0
	}
	return parseSpeed(string(b))
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
