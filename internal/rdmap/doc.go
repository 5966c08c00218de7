// SPDX-License-Identifier: Apache-2.0

// Package rdmap is the iWARP engine: MPA, DDP and RDMAP over a stream of bytes (RFC 5044,
// RFC 5041, RFC 5040, with the extensions of RFC 6581 and RFC 7306). It is pure: it has no
// goroutine, lock, socket or clock. Who runs it gives it bytes and takes bytes out.
//
// A stream begins with [Setup], which reads the one frame that the peer sends, and the
// functions that make frames; what both sides agreed on is [Params]. [QP.Begin] hands the
// stream to a queue pair. From then on
//
//	Into, Received    where the next bytes of the stream go, and that they are there
//	NextFPDUs, Sent   what is to be sent next, and how much of it TCP took
//	Ending            nothing follows what was sent: close the stream
//
// All bytes pass through memory of the device's own, both ways. The program's memory is read
// once, when an FPDU is made of it, and written once, when the FPDU's CRC has been checked: it
// may change at any time, or vanish (docs/decisions/0012-copies-of-streams.md).
//
// # Files
//
//	setup.go                  MPA's frames, what they agree on
//	qp.go, modify.go          the queue pair, its states
//	prompt.go                 peers that miss what comes first
//	sendqueue.go              work requests
//	sender.go, respond.go     from work requests, and from the peer's reads, to FPDUs
//	batch.go                  what comes out
//	receiver.go               from bytes to checked segments
//	place.go, messages.go     where they go, and what they do
//	terminate.go              errors, both ways
package rdmap
