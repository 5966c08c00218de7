// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Listener accepts connections.
type Listener struct {
	id     *ID
	events *EventChannel
	opts   *options

	mu      sync.Mutex
	room    int           // for pending connections
	pending map[*ID]*Conn // accepted, and not yet established
	waiting []*Event      // requests that wait for room
}

// Listen listens at "host:port". The host is the device's address, a name of it, or empty. Port 0 stands for any free
// port, see [Listener.Addr]. The error is ErrNoAddr if the address is not the device's, ErrAddrInUse if another
// listener has the port. When ctx ends, so does the look-up of a name; the listener stays.
func Listen(ctx context.Context, dev *verbs.Device, address string, opts ...Option) (*Listener, error) {
	at, err := Resolve(ctx, dev, address)
	if err != nil {
		return nil, err
	}
	id, err := NewID(NewEventChannel(), dev, TCP)
	if err != nil {
		return nil, err
	}
	if err = id.Bind(at); err != nil {
		id.Close()
		return nil, err
	}
	return ListenID(id, opts...)
}

// ListenID is Listen with an id that the program has created and bound. The listener owns the id
// from then on. If ListenID fails the id is closed.
func ListenID(id *ID, opts ...Option) (*Listener, error) {
	l := &Listener{id: id, events: NewEventChannel(), opts: newOptions(opts), pending: map[*ID]*Conn{}}
	l.room = max(l.opts.backlog, minPending)
	err := l.opts.check(id.Device())
	if err == nil {
		err = id.Migrate(l.events)
	}
	if err == nil {
		err = id.tune(l.opts)
	}
	if err == nil {
		err = id.Listen(l.opts.backlog)
	}
	if err != nil {
		id.Close()
		return nil, err
	}
	return l, nil
}

// minPending is the minimum number of accepted connections that may wait for the peer's
// confirmation, however small the backlog.
const minPending = 128

// Addr returns the address and port that peers dial.
func (l *Listener) Addr() netip.AddrPort { return l.id.LocalAddr() }

// ID returns the listening id.
func (l *Listener) ID() *ID { return l.id }

// Accept waits for a connection and accepts it, with the listener's options. Errors of a single
// peer, such as one that has gone meanwhile, are not returned: Accept waits for the next. Several
// connections may be pending at once. After Close the error is ErrClosed.
//
// A program uses either Accept or Next on a listener.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	defer l.pass()
	for {
		for e := l.nextRequest(); e != nil; e = l.nextRequest() {
			if err := l.answer(&Conn{id: e.ID, peerParam: e.Conn}); err != nil {
				return nil, err
			}
		}
		e, err := l.next(ctx)
		if err != nil {
			return nil, err
		}
		if e.Type == ConnectRequest {
			l.mu.Lock()
			l.waiting = append(l.waiting, e)
			l.mu.Unlock()
			continue
		}
		c := l.take(e.ID)
		switch {
		case c == nil:
			e.ID.Close()
		case e.Type == Established && c.begin(e) == nil:
			return c, nil
		default:
			c.drop()
		}
	}
}

// nextRequest takes a request that is to be answered; nil: there is none, or too many peers have
// not confirmed yet. The manager counts the requests that wait.
func (l *Listener) nextRequest() *Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 || len(l.pending) >= l.room {
		return nil
	}
	e := l.waiting[0]
	l.waiting = l.waiting[1:]
	return e
}

// pass leaves waiting requests to other goroutines in Accept: nothing else may wake them, and this
// one may not come back.
func (l *Listener) pass() {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if l.events.put(waiting...) {
		return
	}
	for _, e := range waiting {
		e.ID.Close()
	}
}

// answer accepts a request. The outcome is an event. The error is one of this side's.
func (l *Listener) answer(c *Conn) error {
	p, err := c.prepare(l.opts)
	if err == nil {
		l.mu.Lock()
		l.pending[c.id] = c
		l.mu.Unlock()
		if err = c.id.Accept(p); err == nil {
			return nil
		}
		if l.take(c.id) == nil {
			return nil // its owner closes it: the peer gave up
		}
	}
	if !c.id.unanswered() {
		err = nil
	}
	c.drop()
	return err
}

// next returns the listener's next event that does not end it.
func (l *Listener) next(ctx context.Context) (*Event, error) {
	e, err := l.events.Get(ctx)
	if err == nil && e.ID == l.id {
		err = opErr("accept", verbs.ErrClosed, "%v: the device is closed", l.id.LocalAddr())
	}
	return e, err
}

// take removes a pending connection.
func (l *Listener) take(id *ID) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.pending[id]
	delete(l.pending, id)
	return c
}

// Next waits for a request that the program wants to inspect before it accepts or rejects it.
func (l *Listener) Next(ctx context.Context) (*Request, error) {
	for {
		e, err := l.next(ctx)
		if err != nil {
			return nil, err
		}
		if e.Type != ConnectRequest {
			e.ID.Close()
			continue
		}
		r := &Request{conn: &Conn{id: e.ID, peerParam: e.Conn}, events: NewEventChannel(), opts: l.opts}
		if r.conn.id.Migrate(r.events) == nil {
			return r, nil
		}
	}
}

// Close stops listening. Connections that Accept or Request.Accept has returned stay; waiting
// requests are rejected.
func (l *Listener) Close() error {
	err := l.id.Close()
	l.mu.Lock()
	pending, waiting := l.pending, l.waiting
	l.pending, l.waiting = map[*ID]*Conn{}, nil
	l.mu.Unlock()
	for _, c := range pending {
		c.drop()
	}
	for _, e := range waiting {
		e.ID.Close()
	}
	l.events.Close()
	return err
}

// Request is a peer's connection request. Exactly one of Accept and Reject ends it.
type Request struct {
	conn   *Conn
	events *EventChannel
	opts   *options
}

// ID returns the id of the requested connection.
func (r *Request) ID() *ID { return r.conn.id }

// Param returns the peer's parameters, including its private data.
func (r *Request) Param() ConnParam { return r.conn.peerParam }

// PeerAddr returns the peer's address.
func (r *Request) PeerAddr() netip.AddrPort { return r.conn.id.PeerAddr() }

// Accept accepts the connection, with the listener's options and further ones, and waits until it
// is established. If ctx ends first, the connection is given up.
func (r *Request) Accept(ctx context.Context, opts ...Option) (*Conn, error) {
	c := r.conn
	p, err := c.prepare(r.opts.with(opts))
	if err == nil {
		err = c.id.Accept(p)
	}
	var e *Event
	if err == nil {
		e, err = next(ctx, r.events, Established)
	}
	if err == nil {
		err = c.begin(e)
	}
	if err != nil {
		c.drop()
		return nil, err
	}
	return c, nil
}

// Reject rejects the request, with up to MaxRejectData bytes of private data. With more it returns
// ErrInvalid, and the peer gets a rejection without data.
func (r *Request) Reject(privateData []byte) error {
	err := r.conn.id.Reject(privateData)
	return errors.Join(err, r.conn.id.Close())
}
