// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
)

// serveFaults answers requests for faults, one after the other, until the listener is closed.
func serveFaults(l *net.UnixListener) {
	for {
		c, err := accept(l)
		if err != nil {
			return
		}
		answerFaults(c)
	}
}

func answerFaults(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(writeTimeout)) // others wait
	r, err := observe.ReadFaultRequest(c)
	if err != nil {
		return
	}
	_ = r.Answer(c) // the requester sees that it is cut off
}

// Faults shows or replaces the faults of a process of this user, and for root of any.
func Faults(ctx context.Context, pid int, r *observe.FaultRequest) ([]observe.DeviceFaults, error) {
	all, err := listening()
	if err != nil {
		return nil, fmt.Errorf("looking for process %d: %w", pid, err)
	}
	for _, first := range []bool{true, false} { // in containers names have other ids
		for _, at := range all {
			if (at.pid == pid) != first || !allowed(os.Geteuid(), at.uid) {
				continue
			}
			if c := dialAt(ctx, at, at.faults(), pid); c != nil {
				defer c.Close()
				return askFaults(ctx, c, r)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("process %d has no open device whose faults could be set: it has ended, is another user's, or of an older version of Ramjet", pid)
}

func askFaults(ctx context.Context, c *net.UnixConn, r *observe.FaultRequest) ([]observe.DeviceFaults, error) {
	c.SetDeadline(time.Now().Add(readTime))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := r.Write(c)
	if err == nil {
		err = c.CloseWrite()
	}
	var all []observe.DeviceFaults
	if err == nil {
		all, err = observe.ReadFaultReply(c)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the process did not answer within %v: it is stopped, or busy", readTime)
	case errors.Is(err, observe.ErrTruncated):
		return nil, errEnded
	}
	return all, err
}
