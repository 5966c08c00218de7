// SPDX-License-Identifier: Apache-2.0

// Package portshare lets several processes of one user and host have one UDP address, with
// no daemon and no privileges. It is Linux's; see docs/decisions/0006-one-address-many-processes.md.
//
// # How
//
// The sockets of the address are a group, one for each slot, and the kernel gives each
// datagram to the socket of the slot that its queue pair number names. Each process has a
// slot. What all have in common lies in the kernel and is passed on from process to
// process, so that it outlives whoever made it: the sockets, a box for each slot through
// which others forward what came to the wrong one, and a [board] that knows which slots
// are taken and who has claimed which service id.
//
// # Doors
//
// Each member has a door, an abstract Unix socket at which newcomers get all descriptors.
// Newcomers find the doors in the kernel's list of Unix sockets, and ask at all of them: a
// member that is stopped keeps nobody out. A process alone has a door, and makes the rest
// when a second one comes.
//
// # The leader
//
// One member is the leader: it gets what is for no process in particular. The board says
// who it is. The others ping it at its door, and one of them takes its place when it is
// gone or does not answer. To take it from one that was only slow does no
// harm: that one is a member like the others then.
package portshare
