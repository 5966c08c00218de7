// SPDX-License-Identifier: Apache-2.0

package verbs

import "net/netip"

// StreamDriver is what a Driver is too whose queue pairs are connected by streams between
// addresses and ports, as those of iWARP over TCP. Package cm sits on it there, as it sits on
// [GSI] elsewhere; programs use package cm.
//
// Functions that are handed over to hear of something are called from one goroutine, one
// after the other and without a lock held; they may call back.
type StreamDriver interface {
	// ListenStream takes connections, of which at most backlog wait for an answer. f hears
	// of each, as a StreamAsked. An error of the system says that the port is taken.
	ListenStream(at netip.AddrPort, backlog int, f func(StreamEvent)) (StreamListener, error)
	// StreamsDone is closed with the device.
	StreamsDone() <-chan struct{}
	// DialStream asks for a connection of a queue pair in INIT. f hears what becomes of it.
	DialStream(qp QPDriver, from, to netip.AddrPort, p StreamParam, f func(StreamEvent)) (Stream, error)
}

// StreamListener takes connections until it is closed.
type StreamListener interface {
	Addr() netip.AddrPort
	Close() error
}

// Stream is a connection to be, or that stands.
type Stream interface {
	// Accept takes a connection that was asked for, for a queue pair in INIT, RTR or RTS.
	// ErrState: the stream has ended, or the peer wants what cannot be.
	Accept(qp QPDriver, p StreamParam, f func(StreamEvent)) error
	Reject(private []byte) error
	// Disconnect ends it in an orderly way: the peer reads all that was sent.
	Disconnect()
	// Close forgets it, with Disconnect where that has not happened. Nothing is heard of it
	// from then on.
	Close()
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
}

// StreamParam is what both sides of a stream tell each other, seen from this side.
type StreamParam struct {
	PrivateData []byte
	IRD, ORD    uint16 // READs and atomics that are answered at once, and in flight
	TOS         uint8
}

// StreamEventType is what happened to a stream.
type StreamEventType uint8

const (
	StreamAsked       StreamEventType = iota // a peer wants a connection: Stream is new
	StreamEstablished                        // the queue pair is in RTS
	StreamRejected                           // the peer does not want it
	StreamFailed                             // it could not be made
	StreamClosed                             // it has ended, on both sides or because the peer is gone
)

// StreamEvent is something that happened to a stream.
type StreamEvent struct {
	Type   StreamEventType
	Stream Stream
	Param  StreamParam // of StreamAsked, StreamEstablished, StreamRejected: what the peer said
	Err    error       // of StreamFailed
}

// MaxStreamData is how many bytes of private data a stream's set-up has room for.
const MaxStreamData = 508
