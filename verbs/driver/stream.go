// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// StreamDevice is a [Device] whose queue pairs are connected by streams between addresses and ports, such as iWARP's
// over TCP. Package cm runs on it there, as it runs on [umad.Agent] elsewhere; programs use package cm.
//
// Callbacks are called from one goroutine, one after the other and without a lock held. They may
// call back.
type StreamDevice interface {
	// ListenStream takes connections, of which at most backlog wait for an answer. f gets each as a
	// StreamRequested event, and a StreamFailed event if it ends before it was answered. A system error
	// means that the port is taken.
	ListenStream(at netip.AddrPort, backlog int, f func(StreamEvent)) (StreamListener, error)
	// StreamsDone is closed with the device.
	StreamsDone() <-chan struct{}
	// DialStream requests a connection for a queue pair in INIT. f gets the outcome. Without a queue
	// pair (nil) the request only asks for the private data of the peer's rejection.
	DialStream(qp QP, from, to netip.AddrPort, p StreamParam, f func(StreamEvent)) (Stream, error)
}

// NumberedDevice is a [StreamDevice] that finds its queue pairs by their numbers, which is how programs name those that
// they have created themselves.
type NumberedDevice interface {
	// QPNumbered returns a reliable queue pair; nil: none has the number.
	QPNumbered(n verbs.QPN) QP
}

// ServiceDevice is a [StreamDevice] whose system finds datagram services by address and port (IBTA 12.11), and joins
// multicast groups. On other StreamDevices a request without a queue pair asks for a service, and there are no
// multicast groups.
type ServiceDevice interface {
	// ListenService is ListenStream for requests of a service. Their streams are of type ServiceStream.
	ListenService(at netip.AddrPort, backlog int, f func(StreamEvent)) (StreamListener, error)
	// LookUpService asks for a service. f gets StreamEstablished or StreamRejected, with Service, or
	// StreamFailed.
	LookUpService(from, to netip.AddrPort, p StreamParam, f func(StreamEvent)) (Stream, error)
	// JoinGroup joins a multicast group until the stream is closed. f gets StreamEstablished with Service, or
	// StreamFailed. Queue pairs are attached to it besides.
	JoinGroup(from, group netip.Addr, f func(StreamEvent)) (Stream, error)
}

// ServiceStream is a request for a datagram service.
type ServiceStream interface {
	Stream
	// AcceptService answers with a queue pair.
	AcceptService(qpn verbs.QPN, private []byte) error
}

// Service is the answer to a request for a datagram service: the address of its queue pair, or of a group.
type Service struct {
	Status uint8 // of StreamRejected: that of SIDR REP (IBTA 12.11.2)
	QPN    verbs.QPN
	QKey   verbs.QKey
	AH     verbs.AHAttr
}

// StreamListener takes connections until it is closed.
type StreamListener interface {
	Addr() netip.AddrPort
	Close() error
}

// Stream is a connection, established or being set up.
type Stream interface {
	// Accept accepts a requested connection for a queue pair in INIT, RTR or RTS. ErrState means
	// that the stream has ended, or that the peer asks for the impossible.
	Accept(qp QP, p StreamParam, f func(StreamEvent)) error
	Reject(private []byte) error
	// Disconnect ends it in an orderly way: the peer reads everything that was sent.
	Disconnect()
	// Close releases it, after Disconnect if that was not called. No events follow.
	Close()
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
}

// StreamParam holds the parameters that the two sides of a stream exchange, seen from this side.
type StreamParam struct {
	PrivateData []byte
	IRD, ORD    uint16 // READs and atomics that are answered at once, and that are in flight
	TOS         uint8
	// FewerRNR is 7, which means without limit, less the number of RNR retries that the other side is to make. Streams
	// of devices without CapRNRNak do not carry it.
	FewerRNR uint8
	// OwnRNR is the number of RNR retries that this side makes; nil: as many as the other side asks for.
	OwnRNR *uint8
}

// StreamEventType is the type of a stream's event.
type StreamEventType uint8

const (
	StreamRequested   StreamEventType = iota // a peer requests a connection: Stream is new
	StreamEstablished                        // the queue pair is in RTS
	StreamRejected                           // the peer rejected it
	StreamFailed                             // it could not be established
	StreamClosed                             // it has ended, on both sides or because the peer is gone
	// after StreamClosed: nothing of it is in flight, the queue pair may have another
	StreamReleased
)

// StreamEvent is something that happened to a stream.
type StreamEvent struct {
	Type   StreamEventType
	Stream Stream
	Param  StreamParam // of StreamRequested, StreamEstablished, StreamRejected: the peer's parameters
	Err    error       // of StreamFailed

	Service Service // of StreamEstablished and StreamRejected, of a ServiceDevice's streams
}

// MaxStreamData is the limit of private data in a stream's set-up, in bytes.
const MaxStreamData = 508
