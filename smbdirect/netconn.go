// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect/internal/frame"
)

// NetConn returns the connection as a net.Conn in the framing of SMB over TCP (MS-SMB2 2.1): before each message 4
// bytes, of which the first is 0 and the others are its length in network byte order. The Conn must not be used
// besides.
//
// A message that the program writes is sent when all of it was written. A deadline that ends a write in the middle of
// a message ends the connection.
func (c *Conn) NetConn() net.Conn {
	n := &netConn{c: c}
	n.read.init()
	n.write.init()
	return n
}

type netConn struct {
	c           *Conn
	read, write deadline

	readMu sync.Mutex // guards in
	in     []byte     // of the frame that is being read

	writeMu sync.Mutex // guards out
	out     frame.Frame
}

// Read reads frames. It returns io.EOF once the peer has closed the connection and everything was read.
func (n *netConn) Read(b []byte) (int, error) {
	n.readMu.Lock()
	defer n.readMu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if len(n.in) == 0 {
		ctx := n.read.context()
		m, err := n.c.readMessage(ctx)
		switch {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return 0, n.c.opError("read", deadlineErr(ctx, err))
		}
		n.in = frame.Append(nil, m)
	}
	k := copy(b, n.in)
	n.in = n.in[k:]
	return k, nil
}

// Write writes frames, or parts of them.
func (n *netConn) Write(b []byte) (int, error) {
	n.writeMu.Lock()
	defer n.writeMu.Unlock()
	ctx := n.write.context()
	done := 0
	for done < len(b) {
		if err := ctx.Err(); err != nil {
			return done, n.c.opError("write", deadlineErr(ctx, err))
		}
		rest, whole, err := n.out.Add(b[done:], n.c.limits.fragmented)
		if err != nil {
			return done, n.c.opError("write", err)
		}
		if whole {
			if err := n.c.WriteMessage(ctx, n.out.Take()); err != nil {
				return done, deadlineErr(ctx, err)
			}
		}
		done = len(b) - len(rest)
	}
	return done, nil
}

// deadlineErr returns the error that programs of package net look for when a deadline has passed.
func deadlineErr(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		if errors.Is(op.Err, context.Canceled) {
			op.Err = os.ErrDeadlineExceeded
		}
		return op
	}
	if errors.Is(err, context.Canceled) {
		return os.ErrDeadlineExceeded
	}
	return err
}

// Close closes the connection.
func (n *netConn) Close() error {
	err := n.c.Close()
	n.read.stop()
	n.write.stop()
	return err
}

func (n *netConn) LocalAddr() net.Addr  { return n.c.LocalAddr() }
func (n *netConn) RemoteAddr() net.Addr { return n.c.RemoteAddr() }

// SetDeadline sets when Read and Write fail with os.ErrDeadlineExceeded, including pending calls; the zero time: never.
func (n *netConn) SetDeadline(t time.Time) error {
	n.read.set(t)
	n.write.set(t)
	return nil
}

// SetReadDeadline sets when Read fails.
func (n *netConn) SetReadDeadline(t time.Time) error { n.read.set(t); return nil }

// SetWriteDeadline sets when Write fails.
func (n *netConn) SetWriteDeadline(t time.Time) error { n.write.set(t); return nil }
