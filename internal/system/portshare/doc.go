// SPDX-License-Identifier: Apache-2.0

// Package portshare lets several processes of one user and host have one UDP address, with
// no daemon and no privileges. It is Linux's; see docs/decisions/0006-one-address-many-processes.md.
//
// # How
//
// The sockets of the address are a group, one for each slot. The kernel gives each datagram to the
// socket of the slot that its queue pair number names. Each process has a slot. The shared objects
// live in the kernel and are passed from process to process, so that they outlive their creator: the
// sockets, a box for each slot through which others forward datagrams that came to the wrong one, and
// a [board] that records which slots are taken and which process has claimed which service id.
//
// # Control sockets
//
// Each member has a control socket, an abstract Unix socket at which newcomers get all descriptors.
// Newcomers find them in the kernel's list of Unix sockets, and ask all of them: a stopped member
// locks no process out. A lone process has only this, and creates the rest when a second one comes.
//
// # The leader
//
// One member is the leader: it gets the datagrams for no process in particular. The board names it. The
// others ping it at its control socket. When it is gone or does not answer, one of them takes its place.
// Replacing a leader that was only slow does no harm: it becomes a member like the others.
package portshare
