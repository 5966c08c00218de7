// SPDX-License-Identifier: Apache-2.0

// Package routing finds routes in a subnet of switches: linear forwarding tables for unicast LIDs,
// spanning trees for multicast groups (IBTA 14.2.5.10 and 14.2.5.11), and whether the routes can
// block each other for ever.
//
// Switches hold a packet until the next one has credits (section 7.9). If packets wait for each other
// in a circle, none moves again: a credit loop. A set of tables is free of them if and only if the
// channels, which are the directions of links, have no cycle in their dependencies: channel b depends
// on a if some packet leaves a switch through b after it came through a (Dally and Seitz, "Deadlock-
// Free Message Routing in Multiprocessor Interconnection Networks", 1987). [Graph.CreditLoop] looks
// for such a cycle.
//
// All functions give the same result for the same graph. Nothing here has a lock, a clock or a
// goroutine.
package routing
