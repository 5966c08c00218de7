// SPDX-License-Identifier: Apache-2.0

// Package iwarp is a device: iWARP over TCP, in user space. Its peers are other such devices
// and RDMA hardware or drivers that speak iWARP, such as Linux's siw.
//
// A device belongs to one local address. Package cm connects its queue pairs, with peers of either
// kind. The port of a connection is that of its TCP connection. Queue pairs of two Ramjets can also
// be connected by number ([verbs.QP.Connect]).
//
// docs/iwarp.md has the differences to InfiniBand: RC only, a work request completes when
// TCP has taken its bytes, and a message without a receive waits in the stream.
package iwarp
