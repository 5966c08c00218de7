// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
)

// ErrNoFabric is wrapped by errors that say that no fabric runs under a name.
var ErrNoFabric = errors.New("infiniband: no fabric runs here")

// View returns the present state of the fabric of a name, which another process of the user runs.
func View(name string) (*FabricView, error) {
	v := new(fabric.View)
	if err := query(name, hello{View: true}, kindView, v); err != nil {
		return nil, err
	}
	return newView(v), nil
}

// Route returns the way of packets on the fabric of a name, as [Fabric.Route] does.
func Route(name string, from, to End) (hops []End, arrives bool, err error) {
	var r route
	err = query(name, hello{Route: &ends{from, to}}, kindRoute, &r)
	return r.Hops, r.Arrives, err
}

// query asks a fabric's process for something that needs no adapter.
func query(name string, h hello, want messageKind, v any) error {
	ctx, cancel := patience(context.Background())
	defer cancel()
	c, err := dialLocal(ctx, name)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchangeHello(ctx, c, newReader(c, maxMessage), h, want, v)
}

const (
	// answerTime is how long the fabric's process, which lives, may take to answer. A busy host is no reason to give
	// up: hundreds of programs may wait for its processors.
	answerTime = 2 * time.Minute
	// askInterval is how often waiting goroutines look whether the fabric's process is stopped.
	askInterval = time.Second
)

// patience bounds a wait for the fabric's process.
func patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTime,
		fmt.Errorf("infiniband: the fabric's process has not answered within %v", answerTime))
}

// errStopped returns the error that the fabric's process, which c leads to, is stopped; nil: it is not.
func errStopped(c *net.UnixConn) error {
	if pid := stopped(c); pid != 0 {
		return fmt.Errorf(
			"infiniband: the fabric's process is stopped, by a signal or a debugger: kill -CONT %d lets it go on", pid)
	}
	return nil
}

// exchangeHello exchanges the first messages with a fabric's process.
func exchangeHello(ctx context.Context, c *net.UnixConn, r *reader, h hello, want messageKind, v any) error {
	defer c.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	h.Version = protocolVersion
	_, failed := c.Write(appendMessage(nil, kindHello, h)) // a fabric that refuses may have closed it already
	k, b, err := r.await(ctx, c)
	switch {
	case err != nil:
		return cmp.Or(context.Cause(ctx), errStopped(c),
			fmt.Errorf("infiniband: the fabric's process: %w", cmp.Or(failed, err)))
	case k == kindRefused:
		return refusedError(b)
	case k != want:
		return errMessage
	}
	return decode(b, v)
}

// await returns the next message, as next does. It waits for as long as the process at the other end has the
// connection open and is not stopped, until ctx ends.
func (r *reader) await(ctx context.Context, c *net.UnixConn) (k messageKind, b []byte, err error) {
	for {
		c.SetReadDeadline(time.Now().Add(askInterval))
		if ctx.Err() != nil { // it may have ended just before
			return 0, nil, ctx.Err()
		}
		if k, b, err = r.next(); !errors.Is(err, os.ErrDeadlineExceeded) || stopped(c) != 0 {
			return k, b, err
		}
	}
}
