// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/admission"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Server receives files into a directory, and sends its files. Its fields must not change while it serves.
type Server struct {
	Root     *os.Root
	Readable bool        // clients may list and fetch files
	ReadOnly bool        // they may write nothing
	Report   func(Event) // may be nil; called by several goroutines

	mu   sync.Mutex
	busy map[string]chan struct{} // names being written; closed when done

	clients admission.Clients
	limit   int          // of clients; 0: admission.Limit
	granted atomic.Int64 // segments
}

// Event is an event of a server.
type Event struct {
	Peer netip.AddrPort
	Name string // of a file; empty: the connection
	Size int64
	Kept int64 // bytes that were already there
	Sent bool  // the client fetched it
	Err  error // nil: the file is complete, or the client connected
}

// Listen takes connections of clients at "host:port"; errors are those of [cm.Listen].
func Listen(ctx context.Context, dev *verbs.Device, address string) (*cm.Listener, error) {
	return cm.Listen(ctx, dev, address, connOptions()...)
}

// Serve serves the clients of a listener until ctx ends. When there are too many, the client that has been idle longest
// gives way to the next.
func (s *Server) Serve(ctx context.Context, l *cm.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	limit := cmp.Or(s.limit, admission.Limit)
	places := make(chan struct{}, limit+limit/4+1) // of clients, and of clients that give way
	for {
		r, err := l.Next(ctx)
		if err != nil {
			return err
		}
		if string(r.Param().PrivateData[:min(len(hello), len(r.Param().PrivateData))]) != hello {
			r.Reject([]byte("this is `ramjet serve`, version 2 of its protocol: the client has another"))
			continue
		}
		n, here, err := s.clients.Enter(ctx, limit)
		if err != nil {
			r.Reject([]byte(err.Error()))
			continue
		}
		places <- struct{}{} // a client that gives way needs a few seconds at most
		wg.Go(func() {
			defer func() { <-places }()
			defer n.Leave()
			if err := s.serve(ctx, here, n, r); err != nil {
				s.tell(Event{Peer: r.PeerAddr(), Err: err})
			}
		})
	}
}

func (s *Server) tell(e Event) {
	if s.Report != nil {
		s.Report(e)
	}
}

// reasonTime is how long a client that gives way has to take the reason.
const reasonTime = time.Second

// serve serves one client, until it gives way, which ends here. Its keys are valid only in its own protection domain.
func (s *Server) serve(ctx, here context.Context, n *admission.Client, r *cm.Request) error {
	pd, err := r.ID().Device().AllocPD()
	if err != nil {
		r.Reject([]byte("the server has no resources"))
		return err
	}
	defer pd.Close()
	conn, err := r.Accept(here, cm.WithPD(pd))
	if here.Err() != nil {
		if err == nil {
			conn.Close()
		}
		return nil
	}
	if err != nil {
		return err
	}
	s.tell(Event{Peer: conn.PeerAddr()})
	c := &session{link: newLink(conn, n.Active), srv: s, pd: pd}
	err = c.run(here)
	switch {
	case ctx.Err() != nil:
		err = errStopped
	case here.Err() != nil:
		err = errIdle
		limit, cancel := context.WithTimeout(ctx, reasonTime)
		c.send(limit, failure{everyFile, err.Error()})
		cancel()
	}
	conn.Close()
	if c.in != nil {
		c.in.interrupted()
		c.count(0)
		s.release(c.in.name)
		s.tell(Event{Peer: conn.PeerAddr(), Name: c.in.name, Err: err})
	}
	if here.Err() != nil || errors.Is(err, ErrLost) {
		return nil // as every connection ends
	}
	return err
}

// busyTime is how long a client waits for a file that another one writes: that may be its own
// connection of before, whose end has not been noticed yet.
var busyTime = 3 * probeAfter

// take makes sure that only one client writes a file.
func (s *Server) take(ctx context.Context, name string) error {
	limit, cancel := context.WithTimeout(ctx, busyTime)
	defer cancel()
	for {
		s.mu.Lock()
		other, taken := s.busy[name]
		if !taken {
			if s.busy == nil {
				s.busy = map[string]chan struct{}{}
			}
			s.busy[name] = make(chan struct{})
		}
		s.mu.Unlock()
		if !taken {
			return nil
		}
		select {
		case <-other:
		case <-limit.Done():
			return errTaken
		}
	}
}

func (s *Server) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy[name])
	delete(s.busy, name)
}
