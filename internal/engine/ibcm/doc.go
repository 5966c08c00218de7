// SPDX-License-Identifier: Apache-2.0

// Package ibcm is the InfiniBand connection manager (IBTA volume 1, chapter 12,
// and annex A11 for the RDMA IP CM service): it sets up connections of RC, UC
// and XRC queue pairs, ends them, and resolves service IDs to UD queue pairs.
//
// An [Engine] is a value that is fed datagrams and time and drained of
// datagrams and events. It has no goroutine, no lock, no socket, no clock and
// no randomness:
//
//	id, err := e.Connect(now, &params)    // commands
//	e.HandleMAD(now, from, bytes)         // inputs
//	e.HandleTimeout(now)
//	for e.NextMAD(&out) {                 // outputs: drain both until false after every
//		gsi.Send(out.To, out.MAD[:])      // command and input
//	}
//	for e.NextEvent(&event) { … }
//	e.Deadline()                          // when HandleTimeout is due; 0: never
//
// The engine does not touch queue pairs. Its caller moves them through
// their states, at the events that say so.
//
// # A connection, actively
//
//	Connect            → REQ
//	EventReply         ← REP       move the QP to RTR and RTS, then
//	Ready              → RTU       the connection is established
//	Reject             → REJ       (instead of Ready: a REP that cannot be used)
//	EventDisconnected              the peer asked for it, or Disconnect was answered; move the QP to the error state
//	EventTimeWaitExit              the connection's ID and QPN may be used again
//
// EventRejected and EventUnreachable come instead of EventReply, and also
// instead of EventDisconnected where the peer says in the middle that it does
// not know the connection.
//
// # A connection, passively
//
//	Listen
//	EventRequest       ← REQ       make a QP, move it to RTR (and RTS), post receives, then
//	Accept             → REP
//	Reject             → REJ       (instead of Accept)
//	EventEstablished   ← RTU       or by Established, where data arrives before the RTU
//
// and on as above. EventUnreachable comes where no RTU arrives.
//
// # How long a connection is known
//
// A connection is known by its [mad.CommID], which the engine makes. It is
// forgotten after the event for which [EventKind.Final] holds, or at
// [Engine.Release]: commands answer [ErrNotFound] from there on. The engine
// keeps by itself the state that the wire needs (time wait, repeated answers).
//
// # Linux peers
//
// With the same parameters, messages equal those of Linux byte for byte, but
// for the low half of transaction IDs. The defaults differ where Linux is slow
// to notice a loss: messages are sent again after 1.07 s, not 4.3 s and more,
// and while an MRA holds, every 4.3 s. Linux answers both with an MRA, or
// repeats its answer. It does not answer repeated DREQs before its program
// has reacted to the first, and again once its time wait is over, as
// long as the program has not destroyed its ID. Time wait is short, 0.26 s with
// an acknowledgement timeout of 16, so the first three repetitions of a DREQ come
// at half that distance. A peer that misses all of them waits for all repetitions.
//
// Linux keeps no trace of rejected requests; this engine repeats its REJ for
// 20 s. Both free the peer's QP number with the DREP, and not after time wait.
//
// # Forged messages
//
// A host can put any address on a datagram. A message that ends or changes a connection must
// therefore have numbers that only hosts on its path see: both communication IDs and the
// transaction ID of the set-up, of which each engine draws 28 to 32 and 32 bits (a DREQ, which
// begins a transaction, names the IDs and the QPN). A REQ proves nothing. Where it comes from the
// QP of a connection that stands, the specification has that one be dropped as stale (IBTA
// 12.9.8.3.1); here it is dropped once the RTU of the new one shows that the peer receives our
// messages. Two requests of a peer with one communication ID are two where their transaction IDs
// differ.
//
// A REP is repeated as often as the REQ asks for to a peer that has answered it with an MRA. To others
// it is repeated five times for each REQ, so that a forged REQ is answered with no more than seven
// datagrams of its size.
//
// A listener's backlog has room for peers that repeat their requests, however many requests are forged: see
// [ListenParams.Backlog]. An MRA is given five minutes in all for a REQ, and a minute and a half
// for a REP, even if it asks for more.
//
// # Limits
//
// No alternate paths: a LAP is refused. No peer-to-peer set-up, in which both
// sides send a REQ. No reliable datagrams. No redirection.
package ibcm
