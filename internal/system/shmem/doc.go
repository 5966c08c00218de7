// SPDX-License-Identifier: Apache-2.0

// Package shmem has what processes of one host share memory with: segments that the system cannot
// take back while they are mapped, a ring that carries messages one way, a directory that tells
// peers which memory they may use, and doors through which they meet and hand each other
// descriptors.
//
// Nothing here has a name in a file system. All of it vanishes with the last process that has it.
//
// Peers are not trusted to keep to the rules. Whatever they wrote is checked before it is used, and
// no peer can make this process read or write outside of a segment, or take the segment away. Peers
// of the same user could do worse with ptrace.
package shmem
