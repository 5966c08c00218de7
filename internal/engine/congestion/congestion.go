// SPDX-License-Identifier: Apache-2.0

// Package congestion has the congestion controls of the transport: how much a sender may have in
// flight, and when its next send may leave. Like the engines it is pure: a controller is a value
// that gets events, with the time, and returns verdicts.
package congestion

import (
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// Controller is the congestion control of all packets to one host, or of one queue pair's. The engine reports their
// acknowledgements and losses, and asks for a verdict.
//
// Bytes count as they take room in the peer's buffer: with a packet's cost beyond its payload. Of a
// READ, the request counts when it is sent, and the data when they arrive. Responses to a peer's READs
// count when they are sent, and never arrive: they are not acknowledged.
type Controller interface {
	// Sent: bytes leave in one send.
	Sent(now clock.Time, bytes int)
	// Arrived: bytes are acknowledged, or have arrived as responses.
	Arrived(now clock.Time, bytes int)
	// RoundTrip: a packet that was sent only once was acknowledged after took.
	RoundTrip(now, took clock.Time)
	// Lost: the peer misses packets that a queue pair has in flight, or has no receive for a message.
	// It is called once for all packets in flight.
	Lost(now clock.Time)
	// Silent: none of the packets that a queue pair has in flight was acknowledged in time.
	Silent(now clock.Time)
	// Notified: the peer reports that something in flight has met a router with a long queue (CNP).
	Notified(now clock.Time)
	// Marked: a response to a READ has met one. Its responder gets a CNP for that.
	Marked(now clock.Time)

	// Allows returns the verdict on sending now. The engine calls it after the other methods, and when the
	// verdict's Next has come.
	Allows(now clock.Time) Verdict
	// State returns the state that people are shown.
	State() State
}

// State holds the figures of a controller. Figures that it does not have are zero.
type State struct {
	Rate   float64    // bits per second; 0: it does not pace
	Alpha  float64    // DCQCN's estimate of congestion, 0 to 1
	Target clock.Time // the round trip that it aims at
}

// Verdict is a controller's permission to send.
type Verdict struct {
	Window int        // bytes that may be in flight, and bytes of responses to READs; one send may leave in any case
	Burst  int        // bytes of one send at most, though a packet may be longer
	Next   clock.Time // no send leaves before; zero: it may leave at once
}

// A controller that does not limit sends, or bytes in flight, returns these.
const (
	AnyBurst  = math.MaxInt
	AnyWindow = math.MaxInt
)

// Config describes the flow that a controller is made for.
type Config struct {
	Limit    int     // bytes that buffers on the path are believed to hold
	Packet   int     // bytes of a full packet, as it takes room in a buffer
	Link     int     // bytes of a link that it takes; 0: as many
	LineRate float64 // bits per second; 0: not known
}
