// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
)

const (
	// maxWatchers is how many watchers of packets a process has at the same time.
	maxWatchers = 8
	// lease is how long packets are kept for a watcher that does not ask.
	lease = 10 * time.Second
)

// packetServer serves watchers of packets. Each has a goroutine, which sleeps until it asks.
type packetServer struct {
	l     *net.UnixListener
	lease time.Duration
	lock  sync.Mutex
	conns map[*net.UnixConn]bool // nil: closed
}

func newPacketServer(l *net.UnixListener) *packetServer {
	return &packetServer{l: l, lease: lease, conns: map[*net.UnixConn]bool{}}
}

// serve accepts watchers until the listener is closed. Watchers above the limit are disconnected at once.
func (s *packetServer) serve() {
	for {
		c, err := accept(s.l)
		if err != nil {
			return
		}
		if !s.enter(c) {
			c.Close()
			continue
		}
		go func() {
			defer s.leave(c)
			s.answer(c)
		}()
	}
}

func (s *packetServer) enter(c *net.UnixConn) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.conns == nil || len(s.conns) >= maxWatchers {
		return false
	}
	s.conns[c] = true
	return true
}

func (s *packetServer) leave(c *net.UnixConn) {
	c.Close()
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.conns, c)
}

func (s *packetServer) close() {
	s.l.Close()
	s.lock.Lock()
	defer s.lock.Unlock()
	for c := range s.conns {
		c.SetDeadline(time.Unix(1, 0))
	}
	s.conns = nil
}

// answer answers a watcher until it goes, or does not ask for the time of a lease. It rests after each answer as
// after a snapshot.
func (s *packetServer) answer(c *net.UnixConn) {
	stream := observe.NewPacketStream(c)
	var kept *observe.Capture
	for {
		var r observe.PacketRequest
		if c.SetReadDeadline(time.Now().Add(s.lease)) != nil || stream.ReadRequest(&r) != nil {
			return
		}
		var p observe.Packets
		start := time.Now()
		if kept == nil {
			var err error
			if kept, err = observe.StartCapture(r.Device, r.QPN); err != nil {
				p.Refused = err.Error()
			} else {
				defer kept.Close()
			}
		}
		if kept != nil {
			p = kept.Last(r.Most)
		}
		took := time.Since(start)
		if c.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil || stream.SendReply(&p) != nil || kept == nil {
			return
		}
		time.Sleep(min(restFactor*took, restMost))
	}
}
