// SPDX-License-Identifier: Apache-2.0

// Package channel has SMB2 clients that know nothing of RDMA move data through the RDMA channel. [NetConn] is a
// connection of SMB Direct in the framing of SMB over TCP, on which READ and WRITE requests become such with buffer
// descriptors (MS-SMB2 2.2.19, 2.2.21), and their responses become plain ones again.
//
// Requests that are signed or encrypted pass as they are, and so do all requests of sessions below SMB 3.0, compounds,
// and requests with little data.
package channel

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/frame"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
)

const (
	// threshold is how many bytes a request has at least that uses the channel: exposing memory takes time.
	threshold = 4 << 10
	// maxCalls bounds requests through the channel at once, each of which has memory. Further ones are plain.
	maxCalls = 16
	// setUp bounds how long exposing memory takes.
	setUp = time.Minute
)

// errAnswer is in the error of a connection whose server answers a request that was not sent.
var errAnswer = errors.New("the server's response to a READ is malformed")

// Conn is a net.Conn for an SMB client.
type Conn struct {
	net.Conn // in frames
	c        *smbdirect.Conn

	writeMu sync.Mutex // guards out
	out     frame.Frame

	readMu sync.Mutex // guards in
	in     []byte     // of a frame that the client is reading

	mu      sync.Mutex // guards the fields below
	dialect uint16
	guarded bool             // messages are signed or encrypted, at least a share's
	calls   map[uint64]*call // by MessageId
}

// NetConn returns the connection as a net.Conn, like [smbdirect.Conn.NetConn], and moves data through the RDMA channel
// where it can. c must not be used besides.
func NetConn(c *smbdirect.Conn) *Conn {
	return &Conn{Conn: c.NetConn(), c: c, calls: make(map[uint64]*call)}
}

// MaxWrite returns how many bytes a WRITE request has at most, once the session is set up: the most that goes through
// the channel, or fits into a message that the peer takes. The server may take less by its MaxWriteSize.
func (c *Conn) MaxWrite() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialect >= 0x300 && !c.guarded {
		return max(c.c.MaxReadWrite(), inMessage(c.c.MaxMessage()))
	}
	return inMessage(c.c.MaxMessage())
}

// inMessage returns how many bytes of data there are in a WRITE request of a length, even if it is encrypted.
func inMessage(length int) int {
	return length - smb2.TransformSize - smb2.HeaderSize - smb2.BodySize
}

// call is a request through the channel.
type call struct {
	write  bool
	length int
	memory *smbdirect.Memory
	window *smbdirect.Window
}

// free ends the exposure of a call's memory.
func (c *call) free() error { return errors.Join(c.window.Close(), c.memory.Close()) }

// Write writes frames, or parts of them. A frame is sent when it is whole.
func (c *Conn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for left := b; len(left) > 0; {
		rest, whole, err := c.out.Add(left, max(c.c.MaxMessage(), smb2.HeaderSize+smb2.BodySize+c.c.MaxReadWrite()))
		if err == nil && whole {
			err = c.send(c.out.Take())
		}
		if err != nil {
			return len(b) - len(left), err
		}
		left = rest
	}
	return len(b), nil
}

// send sends a message of the client.
func (c *Conn) send(message []byte) error {
	changed, err := c.request(message)
	if err != nil {
		return err
	}
	if changed != nil {
		message = changed
	}
	_, err = c.Conn.Write(frame.Append(nil, message))
	return err
}

// request exposes memory for a request through the channel, and returns it. nil: it passes as it is.
func (c *Conn) request(b []byte) ([]byte, error) {
	c.see(b)
	r, ok := decodeRequest(b, c.c.MaxReadWrite())
	if !ok || !c.mayCall(r.id, len(b)) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	k := &call{write: r.write, length: r.length}
	var err error
	if k.memory, err = c.c.AllocMemory(r.length); err != nil {
		return nil, err
	}
	copy(k.memory.Bytes(), r.data)
	if k.window, err = k.memory.Expose(ctx, 0, r.length, !r.write); err != nil {
		return nil, errors.Join(err, k.memory.Close())
	}
	c.mu.Lock()
	c.calls[r.id] = k
	c.mu.Unlock()
	return r.append(b, k.window.Descriptor()), nil
}

// mayCall reports whether a request of n bytes may use the channel. One that is too long without it always may.
func (c *Conn) mayCall(id uint64, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialect >= 0x300 && (len(c.calls) < maxCalls || n > c.c.MaxMessage()) && c.calls[id] == nil
}

// see takes note of a message, if it says that messages are signed or encrypted.
func (c *Conn) see(b []byte) {
	var h smb2.Header
	if h.Decode(b) && h.RequiresSigning(b) || smb2.Encrypted(b) {
		c.mu.Lock()
		c.guarded = true
		c.mu.Unlock()
	}
}

// Read reads frames.
func (c *Conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if len(c.in) == 0 {
		// A message arrives as a whole: with the frame's header, the rest is there.
		var head [frame.HeaderSize]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		message := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.Conn, message); err != nil {
			return 0, err
		}
		changed, err := c.response(message)
		if err != nil {
			return 0, err
		}
		if changed != nil {
			message = changed
		}
		c.in = frame.Append(nil, message)
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// response returns the plain response for one to a request through the channel. nil: it passes as it is.
func (c *Conn) response(b []byte) ([]byte, error) {
	var h smb2.Header
	if !h.Decode(b) {
		return nil, nil
	}
	if h.Command == smb2.Negotiate && len(b) >= smb2.DialectAt+2 {
		c.see(b)
		c.mu.Lock()
		c.dialect = binary.LittleEndian.Uint16(b[smb2.DialectAt:])
		c.mu.Unlock()
		return nil, nil
	}
	if !h.Answers() {
		return nil, nil
	}
	c.mu.Lock()
	k := c.calls[h.ID]
	if k == nil || k.write != (h.Command == smb2.Write) {
		c.mu.Unlock()
		return nil, nil
	}
	delete(c.calls, h.ID)
	c.mu.Unlock()
	plain, err := k.response(h, b)
	return plain, errors.Join(err, k.free())
}

// response returns the plain response of a READ, with the data from the call's memory.
func (k *call) response(h smb2.Header, b []byte) ([]byte, error) {
	n, err := readLength(h, b, k.length)
	if n == 0 || err != nil {
		return nil, err
	}
	return plainRead(b, k.memory.Bytes()[:n]), nil
}
