// SPDX-License-Identifier: Apache-2.0

// Package rnet is net.Conn, net.Listener and net.PacketConn over RDMA. Programs written for package
// net run over it unchanged: net/http, gRPC, TLS.
//
//	l, err := rnet.Listen(ctx, dev, ":7471")
//	http.Serve(l, nil)
//
//	c, err := rnet.Dial(ctx, dev, "192.0.2.9:7471")
//	client := http.Client{Transport: &http.Transport{DialContext: (&rnet.Dialer{Device: dev}).DialContext}}
//
// The stream speaks the protocol of librdmacm's rsockets, so C programs on rsockets, and any
// program under librspreload, are peers. Data is written directly into a ring of the peer.
// docs/rnet.md describes the protocol, its options and its limits.
//
// # The thread that moves the data
//
// A [Conn] has no goroutine. A caller that waits in Read or Write polls the completion queue, at first
// for [Options.Spin], and then sleeps. It also handles completions of the other direction. While
// a caller waits, a silent peer is probed every [Options.KeepAlive]. A program that only holds a
// connection does not learn that its peer has gone.
//
// # Concurrency
//
// All methods may be called from several goroutines at once. Concurrent Reads, or Writes, run one
// after the other.
//
// # Errors
//
// Errors are [*net.OpError] around the errors that programs of package net look for: os.ErrDeadlineExceeded;
// net.ErrClosed; io.EOF, unwrapped; syscall.EPIPE after the peer has closed; syscall.ECONNRESET
// after it has vanished; syscall.ETIMEDOUT after it did not acknowledge.
package rnet
