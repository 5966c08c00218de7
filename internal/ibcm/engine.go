// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Engine is a connection manager. Its zero value is of no use, see [New]. It
// must not be used by several goroutines at once.
type Engine struct {
	config    Config
	listeners []*listener
}

// New returns an engine without listeners and connections.
func New(config Config) *Engine { return &Engine{config: config} }

// Listen makes a listener. [ErrInUse]: there is one with the same service and
// mask.
func (e *Engine) Listen(p ListenParams) error { return ErrNotFound }

// Unlisten removes the listener of this service and mask, and rejects the
// requests that it announced and nobody answered: they are forgotten, without
// an event.
func (e *Engine) Unlisten(now Time, service, mask mad.ServiceID) error { return ErrNotFound }

// Connect sends a REQ. Errors: [verbs.ErrInvalid] (private data too long, a
// field out of its range), [verbs.ErrNoMemory] (MaxConnections).
func (e *Engine) Connect(now Time, p *ConnectParams) (mad.CommID, error) { return 0, ErrNotFound }

// Accept answers EventRequest with a REP. Errors of this and the following
// commands: [ErrNotFound], [verbs.ErrState] where the connection is not where
// the command fits, [verbs.ErrInvalid].
func (e *Engine) Accept(now Time, id mad.CommID, p *AcceptParams) error { return ErrNotFound }

// Ready answers EventReply with an RTU: the connection is established.
func (e *Engine) Ready(now Time, id mad.CommID, private []byte) error { return ErrNotFound }

// Reject answers EventRequest or EventReply with a REJ, and forgets the
// connection.
func (e *Engine) Reject(now Time, id mad.CommID, p *RejectParams) error { return ErrNotFound }

// MRA asks the peer of an EventRequest or EventReply for patience: the answer
// will come within the time. It is sent by itself where the peer repeats its
// request, so a program seldom needs it.
func (e *Engine) MRA(now Time, id mad.CommID, t mad.Timeout, private []byte) error {
	return ErrNotFound
}

// Established tells that data arrived on the QP of an accepted connection
// before the RTU did (IBTA 12.9.7: communication established); its event
// follows. Where the RTU was faster, nothing happens.
func (e *Engine) Established(now Time, id mad.CommID) error { return ErrNotFound }

// Disconnect sends a DREQ. EventDisconnected follows when the peer answers, or
// does not; where the peer was faster, nothing happens.
func (e *Engine) Disconnect(now Time, id mad.CommID, private []byte) error { return ErrNotFound }

// Release forgets a connection or a resolution in any state: what is not
// answered is rejected or withdrawn, what is established is disconnected. No
// event comes for it any more.
func (e *Engine) Release(now Time, id mad.CommID) error { return ErrNotFound }

// Resolve sends a SIDR_REQ; EventService or EventUnreachable follows.
func (e *Engine) Resolve(now Time, p *ResolveParams) (mad.CommID, error) { return 0, ErrNotFound }

// Serve answers EventServiceRequest with a SIDR_REP, and forgets the request.
func (e *Engine) Serve(now Time, id mad.CommID, p *ServiceParams) error { return ErrNotFound }

// HandleMAD takes a datagram that arrived at queue pair 1; from is the way
// back. The bytes are the caller's again on return. Whatever is malformed or
// of another class is ignored.
func (e *Engine) HandleMAD(now Time, from verbs.AHAttr, b []byte) {}

// HandleTimeout does what was due until now.
func (e *Engine) HandleTimeout(now Time) {}

// Deadline returns when HandleTimeout is due; 0: never.
func (e *Engine) Deadline() Time { return 0 }

// NextMAD takes the next datagram to send; false where there is none.
func (e *Engine) NextMAD(o *Out) bool { return false }

// NextEvent takes the next event; false where there is none.
func (e *Engine) NextEvent(ev *Event) bool { return false }

// Connections returns how many connections and resolutions the engine holds,
// time wait included.
func (e *Engine) Connections() int { return 0 }
