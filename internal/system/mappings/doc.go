// SPDX-License-Identifier: Apache-2.0

// Package mappings is the process's budget of memory mappings: segments of package shmem, and files that are
// registered as memory. The system has a limit for all mappings of a process, vm.max_map_count. A process
// that has reached it cannot grow its heap: Go's runtime ends it then. So a quarter is left to the runtime,
// the program and its libraries.
//
// Memory without a file is not counted: the system joins neighbours.
package mappings
