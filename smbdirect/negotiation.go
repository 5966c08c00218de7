// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// limits are the limits that both sides have agreed on.
type limits struct {
	send       int // bytes of the longest message to the peer
	receive    int // bytes of the longest message from the peer
	fragmented int // upper-layer bytes of the longest sequence of fragments to the peer
	readWrite  int // bytes of the longest transfer by RDMA; the side that connects: that the peer makes
}

// request returns the Negotiate Request of a side that connects.
func request(o *Options) wire.Request {
	return wire.Request{MinVersion: wire.Version1, MaxVersion: wire.Version1, CreditsRequested: uint16(o.SendCredits),
		PreferredSendSize: uint32(o.MaxSendSize), MaxReceiveSize: uint32(o.MaxReceiveSize),
		MaxFragmentedSize: uint32(o.MaxFragmentedSize)}
}

// handleRequest checks a Negotiate Request (MS-SMBD 3.1.5.5). If err is [ErrVersion], the response says why.
func handleRequest(o *Options, b []byte, f *flow) (l limits, r wire.Response, err error) {
	var q wire.Request
	if !q.Decode(b) {
		return l, r, fmt.Errorf("%w: a Negotiate Request of %d bytes, it has %d", ErrProtocol, len(b), wire.RequestSize)
	}
	r = wire.Response{MinVersion: wire.Version1, MaxVersion: wire.Version1}
	if q.MinVersion > wire.Version1 || q.MaxVersion < wire.Version1 {
		r.Status = wire.StatusNotSupported
		return l, r, fmt.Errorf("%w: it has versions %#x to %#x", ErrVersion, q.MinVersion, q.MaxVersion)
	}
	if err := checkPeer(q.CreditsRequested, q.MaxReceiveSize, q.MaxFragmentedSize); err != nil {
		return l, r, err
	}
	l = limits{send: int(min(uint32(o.MaxSendSize), q.MaxReceiveSize)),
		receive:    int(max(min(uint32(o.MaxReceiveSize), q.PreferredSendSize), wire.MinReceiveSize)),
		fragmented: int(min(q.MaxFragmentedSize, maxSize)), readWrite: o.MaxReadWriteSize}
	f.request(q.CreditsRequested)
	r.NegotiatedVersion = wire.Version1
	r.CreditsRequested = uint16(o.SendCredits)
	r.MaxReadWriteSize = uint32(o.MaxReadWriteSize)
	r.PreferredSendSize, r.MaxReceiveSize = uint32(l.send), uint32(l.receive)
	r.MaxFragmentedSize = uint32(o.MaxFragmentedSize)
	return l, r, nil
}

// handleResponse checks a Negotiate Response (MS-SMBD 3.1.5.6).
func handleResponse(o *Options, b []byte, f *flow) (l limits, err error) {
	var r wire.Response
	switch {
	case !r.Decode(b):
		return l, fmt.Errorf("%w: a Negotiate Response of %d bytes, it has %d", ErrProtocol, len(b), wire.ResponseSize)
	case r.Status == wire.StatusNotSupported:
		return l, fmt.Errorf("%w: it has versions %#x to %#x", ErrVersion, r.MinVersion, r.MaxVersion)
	case r.Status != wire.StatusSuccess:
		return l, fmt.Errorf("%w: it refuses the connection with %v", ErrProtocol, r.Status)
	case r.NegotiatedVersion != wire.Version1:
		return l, fmt.Errorf("%w: it has chosen version %#x, which was not offered", ErrProtocol, r.NegotiatedVersion)
	case r.CreditsGranted == 0:
		return l, fmt.Errorf("%w: it grants 0 credits", ErrProtocol)
	case r.PreferredSendSize > uint32(o.MaxReceiveSize):
		return l, fmt.Errorf("%w: it wants to send %d bytes at once, %d are taken", ErrProtocol, r.PreferredSendSize,
			o.MaxReceiveSize)
	}
	if err := checkPeer(r.CreditsRequested, r.MaxReceiveSize, r.MaxFragmentedSize); err != nil {
		return l, err
	}
	f.request(r.CreditsRequested)
	f.credits = int(r.CreditsGranted)
	return limits{send: int(min(uint32(o.MaxSendSize), r.MaxReceiveSize)), receive: o.MaxReceiveSize,
		fragmented: int(min(r.MaxFragmentedSize, maxSize)), readWrite: int(min(r.MaxReadWriteSize, maxSize))}, nil
}

// checkPeer checks the fields that both messages have.
func checkPeer(credits uint16, receive, fragmented uint32) error {
	switch {
	case credits == 0:
		return fmt.Errorf("%w: it requests 0 credits", ErrProtocol)
	case receive < wire.MinReceiveSize:
		return fmt.Errorf("%w: MaxReceiveSize %d, it has to be at least %d", ErrProtocol, receive, wire.MinReceiveSize)
	case fragmented < wire.MinFragmentedSize:
		return fmt.Errorf("%w: MaxFragmentedSize %d, it has to be at least %d", ErrProtocol, fragmented,
			wire.MinFragmentedSize)
	}
	return nil
}
