// SPDX-License-Identifier: Apache-2.0

// Package forkmark marks sockets so that a forked child of a C program can tell them from the
// program's own.
//
// A forked child has copies of all of its parent's descriptors. No code serves Ramjet's sockets
// there. While they are open the parent's addresses stay taken and its connections stay up, even
// after the parent has ended. So the child closes marked sockets (cabi/c/load.c). A program in Go
// cannot fork without exec, which closes them.
package forkmark
