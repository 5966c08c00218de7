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
// # The door
//
// One member is the leader: it has the door, an abstract Unix socket named after the
// address, at which newcomers get all descriptors, and the others wait for its end. Then
// one of them opens the door anew. The leader also gets what is for no process in
// particular. There is nothing else that only it knows or does.
//
// A process alone has a door, and makes the rest when a second one comes.
package portshare
