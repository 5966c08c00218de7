// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

const (
	// maxConns limits the connections over which a request with the key has come.
	maxConns = 64
	// maxUnknown limits the other connections. One more ends the oldest of them, so that silent clients, and clients
	// without the key, keep no other out.
	maxUnknown = 512
)

// limited is a listener that limits how many connections are open.
type limited struct {
	net.Listener

	lock    sync.Mutex
	known   int       // connections that have shown the key
	unknown list.List // the others, *limitedConn, the oldest first
}

func limit(l net.Listener) *limited { return &limited{Listener: l} }

// Accept returns the next connection. None waits for another one's end.
func (l *limited) Accept() (net.Conn, error) {
	in, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: in, of: l}
	l.lock.Lock()
	defer l.lock.Unlock()
	c.place = l.unknown.PushBack(c)
	if l.unknown.Len() > maxUnknown {
		oldest := l.unknown.Remove(l.unknown.Front()).(*limitedConn)
		oldest.place = nil
		oldest.Conn.Close()
	}
	return c, nil
}

// limitedConn is a connection of a limited listener. The listener's lock guards its fields.
type limitedConn struct {
	net.Conn
	of    *limited
	place *list.Element // among the unknown; nil: it is known, or has ended
	known bool
}

func (c *limitedConn) Close() error {
	c.of.lock.Lock()
	if c.place != nil {
		c.of.unknown.Remove(c.place)
		c.place = nil
	}
	if c.known {
		c.known = false
		c.of.known--
	}
	c.of.lock.Unlock()
	return c.Conn.Close()
}

// welcome remembers that the key has come over the connection. It returns false if there are too many such ones.
func (c *limitedConn) welcome() bool {
	c.of.lock.Lock()
	defer c.of.lock.Unlock()
	if c.known || c.place == nil { // else it is being closed
		return true
	}
	if c.of.known == maxConns {
		return false
	}
	c.of.known++
	c.known = true
	c.of.unknown.Remove(c.place)
	c.place = nil
	return true
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// welcome remembers that a request had the key. It returns false if there are too many connections that have shown it.
func welcome(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*limitedConn)
	return !ok || c.welcome() // tests have no connection
}
