// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Resolve finds the addresses of "host:port", those that dev can reach first. The host may
// be missing: the device's own address. The port is a number.
func Resolve(ctx context.Context, dev *verbs.Device, address string) (netip.AddrPort, error) {
	return netip.AddrPort{}, nil
}

// Dial connects to whoever listens at "host:port".
func Dial(ctx context.Context, dev *verbs.Device, address string, opts ...Option) (*Conn, error) {
	return nil, nil
}

// Listen takes connections at "host:port". The host is the device's address or empty; port
// 0 stands for any that is free, see [Listener.Addr].
func Listen(dev *verbs.Device, address string, opts ...Option) (*Listener, error) { return nil, nil }

// Listener takes connections.
type Listener struct{}

// Addr returns the address and port that peers dial.
func (l *Listener) Addr() netip.AddrPort { return netip.AddrPort{} }

// ID returns the listening id.
func (l *Listener) ID() *ID { return nil }

// Accept waits for a connection and takes it, with the listener's options. What fails for
// reasons of a single peer (it went away meanwhile) is not returned: Accept waits for the
// next.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) { return nil, nil }

// Next waits for a request that the program wants to look at before it accepts or rejects.
func (l *Listener) Next(ctx context.Context) (*Request, error) { return nil, nil }

// Close stops listening. Connections that were accepted stay; those that wait are rejected.
func (l *Listener) Close() error { return nil }

// Request is a connection that a peer wants. Exactly one of Accept and Reject ends it.
type Request struct{}

// ID returns the id of the connection to be.
func (r *Request) ID() *ID { return nil }

// Param returns what the peer said, its private data among it.
func (r *Request) Param() ConnParam { return ConnParam{} }

// PeerAddr returns who asks.
func (r *Request) PeerAddr() netip.AddrPort { return netip.AddrPort{} }

// Accept takes the connection, with the listener's options and further ones, and waits
// until it stands.
func (r *Request) Accept(ctx context.Context, opts ...Option) (*Conn, error) { return nil, nil }

// Reject turns it down; at most MaxRejectData bytes tell why.
func (r *Request) Reject(privateData []byte) error { return nil }
