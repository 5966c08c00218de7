// SPDX-License-Identifier: Apache-2.0

// Package rsocket is the protocol of librdmacm's rsockets: byte streams over a reliable
// connection, by RDMA WRITE with immediate data into rings of the peer, and the headers of
// its datagrams.
//
// It is an engine: no clock, lock, socket, goroutine, nor memory of its own. A [Stream] takes the program's requests
// and received messages, and returns work requests to post. The caller owns the bytes of its rings. The protocol has no
// specification but rdma-core's docs/rsocket and its implementation; docs/rnet.md describes it as spoken here.
package rsocket
