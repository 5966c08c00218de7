// SPDX-License-Identifier: Apache-2.0

package shm

import "fmt"

// limit is why a process has no room for a link. It is a number of messages.
type limit byte

const (
	limitMemory limit = iota
	limitMappings
	limitDescriptors
	limitConnections
)

// String says it of the process.
func (l limit) String() string {
	switch l {
	case limitMemory:
		return "has no memory for one more"
	case limitMappings:
		return "has as many memory mappings as it may (sysctl vm.max_map_count)"
	case limitDescriptors:
		return "has as many descriptors open as it may (RLIMIT_NOFILE, ulimit -n)"
	case limitConnections:
		return "has as many connections as a device may have"
	}
	return fmt.Sprintf("has reached a limit that is unknown here (%d)", byte(l))
}
