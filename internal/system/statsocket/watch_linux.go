// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Watcher watches the packets of a queue pair of another process. It is for one goroutine at a time.
type Watcher struct {
	c       *net.UnixConn
	stream  *observe.PacketStream
	request observe.PacketRequest
}

// Watch makes a process capture the last packets of a queue pair, from the first call of [Watcher.Last] on until Close.
// A watcher that does not ask for ten seconds is disconnected.
func Watch(ctx context.Context, pid int, device string, n verbs.QPN) (*Watcher, error) {
	all, err := listening()
	if err != nil {
		return nil, fmt.Errorf("looking for process %d: %w", pid, err)
	}
	for _, first := range []bool{true, false} { // in containers names have other ids
		for _, at := range all {
			if (at.pid == pid) != first || !allowed(os.Geteuid(), at.uid) {
				continue
			}
			if c := dialAt(ctx, at, at.packets(), pid); c != nil {
				return &Watcher{c, observe.NewPacketStream(c), observe.PacketRequest{Device: device, QPN: n}}, nil
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf(
		"process %d has no open device that can be watched: it has ended, or is of an older version of Ramjet", pid)
}

// dialAt connects to a socket of a process; nil: it is another one, or has ended.
func dialAt(ctx context.Context, l listener, name string, pid int) *net.UnixConn {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	c, cred, err := dial(ctx, l, name)
	if err != nil {
		return nil
	}
	if int(cred.Pid) == pid || cred.Pid == 0 && l.pid == pid {
		return c
	}
	c.Close()
	return nil
}

// Last returns the last packets, most at most. The first call returns none yet.
func (w *Watcher) Last(ctx context.Context, most int) (*observe.Packets, error) {
	w.request.Most = most
	w.c.SetDeadline(time.Now().Add(readTime))
	stop := context.AfterFunc(ctx, func() { w.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := w.stream.SendRequest(&w.request)
	var p *observe.Packets
	if err == nil {
		p, err = w.stream.ReadReply()
	}
	switch {
	case err == nil && p.Refused != "":
		return nil, errors.New(p.Refused)
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the process did not answer within %v: it is stopped, or busy", readTime)
	case errors.Is(err, observe.ErrTruncated), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		err = errEnded
	}
	return nil, err
}

var errEnded = errors.New("the process has ended, closed its devices, or has too many watchers")

// Close ends the watching.
func (w *Watcher) Close() error { return w.c.Close() }
