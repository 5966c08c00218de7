// SPDX-License-Identifier: Apache-2.0

// Package checkboard tells processes of one user and host when the other processes have posted operations, and when
// they noticed operations of their peers, for the checker of programs (package check).
//
// A process has a [Board]: memory that it writes its last operations to, and that others of the same user map to read.
// It has no name in a file system. A Unix socket with an abstract name, to which no process connects, says which
// descriptor of which process it is; others open that by /proc. So nothing is left behind by a process that ends,
// and no process waits for another.
//
// Times are times of the host's monotonic clock, which all processes share. The contents of other processes' boards are
// not trusted: they can be wrong, but neither their length nor their place can be.
//
// The package is in these files:
//
//   - board.go: operations in memory, and how they are found there
//   - share_linux.go: how processes find each other's memory
//   - share_other.go: other systems, which have none
package checkboard
