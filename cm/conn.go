// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Conn is a connection. Several goroutines may use it at once: each call waits for its own
// completion. It owns its queue pair and completion queue, and no goroutine: whoever waits
// polls, also for the others.
type Conn struct{}

// ID returns the connection's id, QP its queue pair, PD its protection domain.
func (c *Conn) ID() *ID       { return nil }
func (c *Conn) QP() *verbs.QP { return nil }
func (c *Conn) PD() *verbs.PD { return nil }

// CQ returns the queue where sends and receives complete; nil with [WithSetup]. Programs
// that post on QP themselves use [WithSetup]: completions of this queue are the Conn's.
func (c *Conn) CQ() *verbs.CQ { return nil }

// LocalAddr and PeerAddr return the addresses of both sides.
func (c *Conn) LocalAddr() netip.AddrPort { return netip.AddrPort{} }
func (c *Conn) PeerAddr() netip.AddrPort  { return netip.AddrPort{} }

// Param returns what the peer said when the connection was made: its private data, and the
// depths that were agreed on, seen from here.
func (c *Conn) Param() ConnParam { return ConnParam{} }

// Send sends one message. It copies p, which is the caller's again on return, also if ctx
// ended before: the message may go out then or not. It waits until the peer has received
// it.
func (c *Conn) Send(ctx context.Context, p []byte) error { return nil }

// SendFrom sends one message out of registered memory, without a copy. The memory is the
// device's until SendFrom returns nil or the connection is closed.
func (c *Conn) SendFrom(ctx context.Context, sgl ...verbs.SGE) error { return nil }

// Recv returns the next message, in a buffer that the caller releases. io.EOF after the
// peer has closed the connection and all messages have been returned.
func (c *Conn) Recv(ctx context.Context) (*Buffer, error) { return nil, nil }

// Write writes registered memory to the peer's (RDMA WRITE) and waits for its completion.
// The memory is the device's until Write returns nil or the connection is closed.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, remote verbs.Remote) error { return nil }

// Read reads the peer's memory into registered memory (RDMA READ) and waits for its
// completion. The memory is the device's until Read returns nil or the connection is closed.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, remote verbs.Remote) error { return nil }

// Do posts any work request and waits for its completion; the request's ID and its Signaled
// flag are the Conn's.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) (verbs.WC, error) { return verbs.WC{}, nil }

// Pool returns the connection's registered buffers.
func (c *Conn) Pool() *Pool { return nil }

// Done is closed when the connection has ended, from either side.
func (c *Conn) Done() <-chan struct{} { return nil }

// Close ends the connection: what was sent before has arrived, as each Send waits; what is
// in flight fails with ErrDisconnected; the peer is told. It does not wait for the peer.
func (c *Conn) Close() error { return nil }
