// SPDX-License-Identifier: Apache-2.0

// Package ladder draws the conversations of a capture as ladder diagrams: time downward, a column a host, an arrow a
// packet.
//
// A capture is read several times. [Take] finds the conversations, and counts the faults of each: a [Survey]. Then
// [Survey.Draw] reads the file again and makes the rows of the chosen conversations: a [Ladder], which is written as
// text, SVG, a page or JSON. Between the two, memory holds the conversations, not their packets; a ladder has at most
// as many rows as asked for, and long runs and repetitions take one row each.
//
// A conversation is a pair of queue pairs, or an iWARP connection. A packet of the reliable and unreliable connected
// services names only the queue pair that it goes to. Which two belong together is told by the connection manager's
// messages if the capture has them, by acknowledgements, which repeat the PSNs of requests, and where neither helps by
// there being only one candidate.
//
// One packet may be in a capture several times: recorded as it left and as it arrived, or at each cable of a fabric.
// These sightings are one arrow. Where both ends of a conversation were recorded, packets that left and did not arrive
// were lost.
package ladder
