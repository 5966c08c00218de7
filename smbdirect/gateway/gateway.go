// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
)

// DefaultTimeout is the default of Options.Timeout.
const DefaultTimeout = 60 * time.Second

// maxFrame bounds a message of the server: data of a READ, and their headers.
const maxFrame = 16<<20 - 1

// maxCalls bounds the requests of a client that use the RDMA channel and are not answered yet.
const maxCalls = 1024

// Options describe a gateway.
type Options struct {
	// Dial connects to the SMB server, once for each client.
	Dial func(ctx context.Context) (net.Conn, error)

	// Timeout limits how long connecting takes, and how long a peer may take no data. Default DefaultTimeout.
	Timeout time.Duration

	// Log gets connections, and why they ended. By default nothing is logged.
	Log *slog.Logger
}

// Serve serves the clients of a listener until ctx ends or the listener fails. It closes their connections then.
func Serve(ctx context.Context, l *smbdirect.Listener, o Options) error {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		all.Go(func() { serve(ctx, c, o) })
	}
}

// serve serves a client to its end.
func serve(ctx context.Context, c *smbdirect.Conn, o Options) {
	defer c.Close()
	log := o.Log.With("client", c.RemoteAddr())
	dialing, cancel := context.WithTimeout(ctx, o.Timeout)
	server, err := o.Dial(dialing)
	cancel()
	if err != nil {
		log.Error("the server cannot be reached", "error", err)
		return
	}
	defer server.Close()
	log.Info("connected", "server", server.RemoteAddr())
	s := &session{c: c, server: server, timeout: o.Timeout, calls: make(map[uint64]*call)}
	ctx, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	var both sync.WaitGroup
	both.Go(func() { end(fmt.Errorf("from the client: %w", s.requests(ctx))) })
	both.Go(func() { end(fmt.Errorf("from the server: %w", s.responses(ctx))) })
	both.Wait()
	switch err := context.Cause(ctx); {
	case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
		log.Info("disconnected", "rdma_reads", s.reads, "rdma_writes", s.writes)
	default:
		log.Error("the connection has ended", "error", err)
	}
}

// session is a client and its connection to the server.
type session struct {
	c       *smbdirect.Conn
	server  net.Conn
	timeout time.Duration

	mu    sync.Mutex
	calls map[uint64]*call // by MessageId: requests that the server works on

	reads, writes uint64 // of the client through the RDMA channel
}

// requests passes on the client's messages.
func (s *session) requests(ctx context.Context) error {
	var memory *smbdirect.Memory
	for {
		b, err := s.c.ReadMessage(ctx)
		if err != nil {
			return err
		}
		c, plain, err := handleRequest(b, s.c.MaxReadWrite())
		if err != nil {
			return err
		}
		if c != nil {
			if err := s.add(c); err != nil {
				return err
			}
			b = plain
			if c.write && c.length > 0 {
				if b, err = s.pull(ctx, &memory, c, plain); err != nil {
					return err
				}
			}
		}
		if err := s.send(b); err != nil {
			return err
		}
	}
}

// pull appends the data of a WRITE, which the client exposes.
func (s *session) pull(ctx context.Context, memory **smbdirect.Memory, c *call, plain []byte) ([]byte, error) {
	if err := s.reserve(memory); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.c.ReadRemote(ctx, *memory, c.length, c.descriptors); err != nil {
		return nil, err
	}
	return append(plain, (*memory).Bytes()[:c.length]...), nil
}

// reserve allocates memory for data, if there is none yet.
func (s *session) reserve(memory **smbdirect.Memory) (err error) {
	if *memory == nil {
		*memory, err = s.c.AllocMemory(s.c.MaxReadWrite())
	}
	return err
}

// send sends a message to the server.
func (s *session) send(b []byte) error {
	s.server.SetWriteDeadline(time.Now().Add(s.timeout))
	buffers := net.Buffers{binary.BigEndian.AppendUint32(nil, uint32(len(b))), b}
	_, err := buffers.WriteTo(s.server)
	return err
}

// add takes note of a call.
func (s *session) add(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls[c.id] != nil:
		return fmt.Errorf("%w: message %d is in flight already", errRequest, c.id)
	case len(s.calls) == maxCalls:
		return fmt.Errorf("%w: more than %d are in flight", errRequest, maxCalls)
	}
	s.calls[c.id] = c
	return nil
}

// answered returns the call that a message of the server answers, if it does.
func (s *session) answered(h smb2.Header) *call {
	if !h.Answers() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[h.ID]
	if c == nil || c.write != (h.Command == smb2.Write) {
		return nil
	}
	delete(s.calls, h.ID)
	if c.write {
		s.writes++
	} else {
		s.reads++
	}
	return c
}

// responses passes on the server's messages.
func (s *session) responses(ctx context.Context) error {
	var memory *smbdirect.Memory
	var head [4]byte
	for {
		if _, err := io.ReadFull(s.server, head[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n == 0 || n > maxFrame {
			return fmt.Errorf("a frame of %d bytes", n)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(s.server, b); err != nil {
			return err
		}
		if err := s.respond(ctx, &memory, b); err != nil {
			return err
		}
	}
}

// respond passes on a message of the server.
func (s *session) respond(ctx context.Context, memory **smbdirect.Memory, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var h smb2.Header
	if !h.Decode(b) {
		return s.c.WriteMessage(ctx, b)
	}
	c := s.answered(h)
	if c == nil {
		return s.c.WriteMessage(ctx, b)
	}
	data, answer, err := c.handleResponse(h, b)
	if err != nil {
		return err
	}
	if data != nil {
		if err := s.reserve(memory); err != nil {
			return err
		}
		copy((*memory).Bytes(), data)
		if err := s.c.WriteRemote(ctx, *memory, len(data), c.descriptors); err != nil {
			return err
		}
		b = answer
	}
	if c.invalidate {
		return s.c.WriteMessageInvalidate(ctx, b, c.descriptors[0].Token)
	}
	return s.c.WriteMessage(ctx, b)
}
