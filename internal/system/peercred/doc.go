// SPDX-License-Identifier: Apache-2.0

// Package peercred tells which process is at the other end of a local socket, by the kernel's records.
package peercred
