// SPDX-License-Identifier: Apache-2.0

// Package rnet is net.Conn, net.Listener and net.PacketConn over RDMA. What is written for
// package net runs over it unchanged: net/http, gRPC, TLS.
//
//	l, err := rnet.Listen(dev, ":7471")
//	http.Serve(l, nil)
//
//	c, err := rnet.Dial(ctx, dev, "192.0.2.9:7471")
//	client := http.Client{Transport: &http.Transport{DialContext: (&rnet.Dialer{Device: dev}).DialContext}}
//
// The stream speaks the protocol of librdmacm's rsockets, so that C programs on rsockets,
// and any program under librspreload, are peers. Data is written straight into a ring of
// the peer; docs/rnet.md describes the protocol, its options and its limits.
//
// # Who moves the data
//
// A [Conn] has no goroutine. Whoever waits in Read or Write polls the completion queue, for
// [Options.Spin] at first, and then sleeps; what it finds for the other direction it hands
// over. While somebody waits, a peer of which nothing is heard is probed every
// [Options.KeepAlive]. What nobody waits for stays where it is: a program that only holds a
// connection does not learn that its peer has gone.
//
// # Concurrency
//
// All methods may be called from several goroutines at once. Two Reads, or two Writes,
// follow one another.
//
// # Errors
//
// Errors are [*net.OpError] around what programs of package net look for:
// os.ErrDeadlineExceeded, net.ErrClosed, io.EOF as it is, syscall.EPIPE after the peer has
// closed, syscall.ECONNRESET after it has vanished, syscall.ETIMEDOUT after it did not
// acknowledge.
package rnet
