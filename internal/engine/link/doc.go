// SPDX-License-Identifier: Apache-2.0

// Package link is the link layer of InfiniBand and its switches (IBTA volume 1, chapters 7 and 18): a
// network of nodes and cables in one process; cables may also lead to other processes. Credits control the
// flow of packets, so that none is lost under load.
//
// A [Net] has [Node]s, whose state is a [node.Node] that management agents change, and [Cable]s between
// their [Port]s. A sender fills a [Packet] and hands it to [Net.Send]. [Net.Run] moves packets; at an
// adapter they wait for [Net.Receive], and occupy the port's receive buffer until [Net.Release].
// So an adapter that does not receive blocks its senders.
//
// # Time
//
// There is no clock here: every call is passed the time. In virtual time links are as fast as their width and
// speed ([Config.Paced]), and the caller advances from one [Net.Deadline] to the next. In real time packets move
// as fast as Run is called.
//
// # Ownership
//
// Nothing here has a lock: the caller serialises calls. A Packet belongs to the sender from [Net.Alloc] until
// Send returns true, then to the net until Receive, then to the receiver until Release. Multicast copies share
// their bytes, so receivers must not modify them.
//
// # Limits
//
// Cables within the process corrupt nothing unless they have an error rate, so a VCRC is computed only if the
// cable has one, leads out of the process, or is recorded. Switches forward raw packets, but adapters drop them.
// Flow control packets take no time on a paced link.
package link
