// SPDX-License-Identifier: Apache-2.0

// Package rdmap is the iWARP engine: MPA, DDP and RDMAP over a stream of bytes (RFC 5044, RFC 5041,
// RFC 5040, with the extensions of RFC 6581 and RFC 7306). It is pure: it has no goroutine, lock,
// socket or clock. Its caller gives it bytes and takes bytes out.
//
// A stream begins with a [Handshake], which is given the peer's only frame and time, and has frames to send.
// The result of the negotiation is [Params]. [QP.Begin] hands the stream to a queue pair.
// From then on
//
//	Into, Received    where the next bytes of the stream go, and that they are there
//	NextFPDUs, Sent   the next FPDUs, and how many of their bytes TCP took
//	Ending            there are no further FPDUs: close the stream
//
// All bytes pass through memory of the device's own in both directions. The program's memory is
// read once, when an FPDU is made of it, and written once, when the FPDU's CRC was checked. It may
// change at any time, or be unmapped (docs/decisions/0012-copies-of-streams.md).
//
// # Files
//
//	handshake.go              the set-up of a stream, of both sides
//	setup.go                  MPA's frames, and the parameters that they agree on
//	qp.go, modify.go          the queue pair, its states; see also package queue
//	prompt.go                 peers that miss the first message
//	sendqueue.go              work requests
//	sender.go, respond.go     from work requests, and from the peer's reads, to FPDUs
//	fpdu.go, batch.go         an FPDU, and the FPDUs to write
//	receiver.go               from bytes to checked segments
//	place.go, messages.go     where payload goes, and the effects of messages
//	terminate.go              errors, both ways
package rdmap
