// SPDX-License-Identifier: Apache-2.0

// Package checkboard tells processes of one user and host when the others have posted operations, and when they noticed
// those of their peers, for the checker of programs (package check).
//
// A process has a [Board]: memory that it writes its last operations to, and that others of the same user map to read.
// It has no name in a file system. A Unix socket with an abstract name, to which nobody connects, says which descriptor
// of which process it is; others open that by /proc. So nothing is left behind by a process that ends, and nobody waits
// for another.
//
// Times are times of the host's monotonic clock, which all processes share. What others have written is not trusted: it
// can be wrong, but neither its length nor its place can be.
//
// The package is in these files:
//
//   - board.go: operations in memory, and how they are found there
//   - share_linux.go: how processes find each other's memory
//   - share_other.go: other systems, which have none
package checkboard
