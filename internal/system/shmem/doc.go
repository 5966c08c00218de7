// SPDX-License-Identifier: Apache-2.0

// Package shmem lets processes of one host share memory: it has segments that no process can take away
// while they are mapped, and sockets through which processes connect and pass each other descriptors.
//
// Segments have no name in a file system, and listeners only in a [Place] that is a directory. All else
// vanishes with the last process that has it.
//
// Peers are not trusted to keep to the rules. All that they wrote is checked before it is used, and
// no peer can make this process read or write outside of a segment, or take the segment away. Peers
// of the same user could do worse with ptrace.
package shmem
