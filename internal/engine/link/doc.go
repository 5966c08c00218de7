// SPDX-License-Identifier: Apache-2.0

// Package link is the link layer of InfiniBand and its switches (IBTA volume 1, chapters 7 and 18): a
// network of nodes and cables in one process, whose cables may also lead to other processes. It moves
// packets with flow control by credits, so that none is lost under load.
//
// A [Net] has [Node]s, whose state is a [node.Node] that management agents change, and [Cable]s between
// their [Port]s. A sender fills a [Packet] and hands it to [Net.Send]. [Net.Run] moves packets; at an
// adapter they wait for [Net.Receive], and hold their place in the port's buffer until [Net.Release].
// So an adapter that does not take its packets holds back those who send to it.
//
// # Time
//
// There is no clock here. Every call is told the time. In virtual time links take as long as their
// width and speed say ([Config.Paced]), and the caller goes from [Net.Deadline] to Deadline. In real
// time packets go as fast as Run is called.
//
// # Ownership
//
// Nothing here has a lock: calls come one at a time. A Packet belongs to whoever has it: the sender from
// [Net.Alloc] to a Send that returns true, the net until Receive, the receiver until Release.
// Multicast copies share their bytes, so a receiver only reads them.
//
// # Limits
//
// Cables within the process lose and change nothing unless they have an error rate, so VCRCs are computed
// only where a cable has one, leads out of the process, or is recorded. Raw packets pass switches,
// but adapters do not take them. Flow control packets take no time of a paced link.
package link
