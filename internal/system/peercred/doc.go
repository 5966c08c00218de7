// SPDX-License-Identifier: Apache-2.0

// Package peercred tells which process is at the other end of a local socket, as the kernel says it.
package peercred
