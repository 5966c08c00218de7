// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrConnectionLost is the error of commands while there is no connection to the controller, and of all commands when
// it has not come back.
var ErrConnectionLost = errors.New("the connection to the controller is lost")

// lostError is the error of a command whose association has ended.
type lostError struct {
	sent bool // the controller may have carried the command out, and may still be at it
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// maxRetries is how often a command is repeated; Linux calls it max_retries.
const maxRetries = 5

// supervise sees to it that there is an association until the controller ends.
func (c *Controller) supervise(a *association) {
	for a != nil {
		<-a.ctx.Done()
		cause := context.Cause(a.ctx)
		c.set(nil, cause)
		a.close()
		switch {
		case c.ctx.Err() != nil:
			return
		case c.opt.LossTimeout < 0:
			c.fail(cause)
			return
		}
		c.opt.Log.Warn("the connection is lost", "subsystem", c.nqn, "address", c.addr, "error", cause)
		a = c.reconnect()
	}
}

// set sets the association; nil: there is none, for a reason.
func (c *Controller) set(a *association, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current = a; a != nil {
		c.identity = a.identity
	} else {
		c.since, c.why = time.Now(), why
	}
	close(c.change)
	c.change = make(chan struct{})
}

// reconnect connects again; nil: the controller has ended.
func (c *Controller) reconnect() *association {
	late := time.NewTimer(c.opt.LossTimeout)
	defer late.Stop()
	for attempt := 1; ; attempt++ {
		a, err := c.again()
		switch {
		case err == nil:
			c.opt.Log.Info("connected again", "subsystem", c.nqn, "address", c.addr, "attempt", attempt)
			c.set(a, nil)
			return a
		case c.ctx.Err() != nil:
			return nil
		case refused(err):
			c.fail(fmt.Errorf("%w, and a new one is refused: %w", ErrConnectionLost, err))
			return nil
		}
		c.opt.Log.Warn("connecting again has failed", "subsystem", c.nqn, "address", c.addr, "attempt", attempt,
			"error", err)
		c.mu.Lock()
		c.why = err
		c.mu.Unlock()
		select {
		case <-time.After(c.opt.ReconnectDelay):
		case <-c.ctx.Done():
			return nil
		case <-late.C:
			c.fail(fmt.Errorf("%w, and was not back within %v: %w", ErrConnectionLost, c.opt.LossTimeout, err))
			return nil
		}
	}
}

// refused reports whether the target has refused the host, and would again.
func refused(err error) bool {
	var r *CommandError
	return errors.As(err, &r) && !r.Retry || errors.Is(err, ErrAuthentication)
}

// again makes an attempt to connect again.
func (c *Controller) again() (*association, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.Timeout)
	defer cancel()
	a, err := c.associate(ctx)
	if err != nil {
		return nil, err
	}
	if a.maxData < c.maxData {
		a.close()
		return nil, fmt.Errorf("nvme: %s takes %d bytes of data in a command now, and %d before", c.addr, a.maxData,
			c.maxData)
	}
	return a, nil
}

// connected waits for an association.
func (c *Controller) connected(ctx context.Context, op string) (*association, error) {
	for {
		c.mu.Lock()
		a, change, since := c.current, c.change, c.since
		c.mu.Unlock()
		var fast <-chan time.Time
		switch {
		case c.ctx.Err() != nil:
			return nil, fmt.Errorf("nvme: %s: %s at %s: %w", op, c.nqn, c.addr, context.Cause(c.ctx))
		case a != nil && a.ctx.Err() == nil:
			return a, nil
		case a == nil && c.opt.FastFail > 0:
			t := time.NewTimer(c.opt.FastFail - time.Since(since))
			defer t.Stop()
			fast = t.C
		}
		select {
		case <-change:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("nvme: %s: %w", op, ctx.Err())
		case <-fast:
			c.mu.Lock()
			defer c.mu.Unlock()
			return nil, fmt.Errorf("nvme: %s: %s at %s: %w: %w", op, c.nqn, c.addr, ErrConnectionLost, c.why)
		}
	}
}

// retry carries out a command by f, again on the next association when one is lost, and returns the generation of the
// last one. A command that changes something is repeated when the target has surely given up the one before: data that
// it may still write is written before, and not over data that the program writes next.
func (c *Controller) retry(ctx context.Context, op string, changes bool, f func(*association) error) (uint64, error) {
	for retries := 0; ; retries++ {
		a, err := c.connected(ctx, op)
		if err != nil {
			return 0, err
		}
		err = f(a)
		var lost *lostError
		if !errors.As(err, &lost) {
			return a.generation, err
		}
		switch {
		case c.opt.LossTimeout < 0 || retries == maxRetries:
			return 0, err
		case !changes || !lost.sent:
			continue
		case c.opt.KeepAlive < 0:
			return 0,
				fmt.Errorf("%w; it may have been carried out, and without keep-alive nothing says when it can be "+
					"repeated", err)
		}
		select {
		case <-time.After(a.expiry()):
		case <-ctx.Done():
			return 0, fmt.Errorf("nvme: %s: %w", op, ctx.Err())
		case <-c.ctx.Done():
		}
	}
}

// expiry is after which time the target has given up a host that it does not hear: the keep-alive timeout, rounded up
// to the controller's unit (base 7.12).
func (a *association) expiry() time.Duration {
	unit := max(time.Duration(a.identity.KeepAlive)*100*time.Millisecond, 100*time.Millisecond)
	return (a.c.opt.KeepAlive + unit - 1).Truncate(unit)
}
