// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of HostOptions.
const (
	DefaultHostDepth = 32
	DefaultHostData  = 128 << 10
	DefaultKeepAlive = 10 * time.Second
	DefaultTimeout   = 30 * time.Second

	DefaultReconnectDelay = 2 * time.Second
	DefaultLossTimeout    = 10 * time.Minute
)

// HostOptions tune [Dial] and [Discover]. Zero values stand for the defaults.
type HostOptions struct {
	NQN    string   // the host's own; by default one is made of HostID
	HostID [16]byte // by default one is drawn

	// Secret is the key that the host proves to have, by DH-HMAC-CHAP, if the controller asks for that.
	// ControllerSecret is the secret that the controller has to prove; zero: none.
	Secret           dhchap.Secret
	ControllerSecret dhchap.Secret

	Queues     int // I/O queues; default 1
	QueueDepth int // commands in flight on a queue, from 2 to 1024

	// MaxData is the most data of a command in bytes, at least 4096; longer reads and writes are several commands. A
	// queue takes QueueDepth × MaxData bytes of memory once so many commands were in flight.
	MaxData int

	// KeepAlive is after which time without a sign of the host the target gives it up; negative: never.
	KeepAlive time.Duration

	// Timeout is how long a command may take, and an attempt to connect again. Then the connection is lost.
	Timeout time.Duration

	// ReconnectDelay is the time between attempts to connect again after the connection was lost; Linux calls it
	// reconnect_delay. The first attempt is made at once.
	ReconnectDelay time.Duration

	// LossTimeout is after which time without a connection the controller has failed; Linux calls it ctrl_loss_tmo.
	// Negative: it fails with its connection, and nothing connects again.
	LossTimeout time.Duration

	// FastFail is after which time without a connection commands fail with ErrConnectionLost, until there is one again;
	// Linux calls it fast_io_fail_tmo. 0: they wait as long as their contexts and LossTimeout allow.
	FastFail time.Duration

	// Changed is called with the numbers of namespaces that were added, removed or changed, by one goroutine; with none
	// after the host has connected again: any may have changed. Close waits for it to return.
	Changed func(namespaces []uint32)

	// Log gets lost connections, and attempts to connect again. By default nothing is logged.
	Log *slog.Logger

	paths *Multipath // that the controller is a path of; nil: it stands alone
}

func (o HostOptions) withDefaults() (HostOptions, error) {
	if o.HostID == ([16]byte{}) {
		crand.Read(o.HostID[:])
		o.HostID[6], o.HostID[8] = o.HostID[6]&0xf|0x40, o.HostID[8]&0x3f|0x80
	}
	if o.NQN == "" {
		h := o.HostID
		o.NQN = fmt.Sprintf("nqn.2014-08.org.nvmexpress:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:])
	}
	o.Queues = cmp.Or(o.Queues, 1)
	o.QueueDepth = cmp.Or(o.QueueDepth, DefaultHostDepth)
	o.MaxData = cmp.Or(o.MaxData, DefaultHostData)
	o.KeepAlive = cmp.Or(o.KeepAlive, DefaultKeepAlive)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.ReconnectDelay = cmp.Or(o.ReconnectDelay, DefaultReconnectDelay)
	o.LossTimeout = cmp.Or(o.LossTimeout, DefaultLossTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Secret.IsZero() && !o.ControllerSecret.IsZero():
		return o, errors.New("nvme: a ControllerSecret without a Secret: a controller proves itself to hosts that do")
	case o.Queues < 1 || o.Queues > 1<<10:
		return o, fmt.Errorf("nvme: %d queues: take from 1 to 1024", o.Queues)
	case o.QueueDepth < 2 || o.QueueDepth > maxDepth:
		return o, fmt.Errorf("nvme: a queue depth of %d: take from 2 to %d", o.QueueDepth, maxDepth)
	case o.MaxData < 4096 || o.MaxData > wire.MaxKeyedLength:
		return o, fmt.Errorf("nvme: %d bytes of data in a command: take from 4096 to %d", o.MaxData,
			wire.MaxKeyedLength)
	case o.Timeout < 0 || o.ReconnectDelay < 0 || o.FastFail < 0:
		return o, errors.New("nvme: a negative Timeout, ReconnectDelay or FastFail")
	}
	return o, CheckNQN(o.NQN)
}

// CommandError is a command that the controller has refused. errors.Is finds its status.
type CommandError struct {
	Op     string // such as "read"
	Status wire.Status
	Retry  bool // the same command may succeed later
}

// Error returns the status in the words of the specification.
func (e *CommandError) Error() string { return "nvme: " + e.Op + ": " + e.Status.String() }

// Unwrap returns the status.
func (e *CommandError) Unwrap() error { return e.Status }

// Controller is a host's controller of a subsystem: its connection, and the connections that take its place when it is
// lost. All its methods may be called from several goroutines.
type Controller struct {
	dev  *verbs.Device
	addr string
	nqn  string
	opt  HostOptions

	ctx     context.Context // ends with the controller
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // supervision, events
	close   sync.Once

	mu       sync.Mutex
	current  *association  // nil: the connection is lost
	change   chan struct{} // closed when current changes
	since    time.Time     // without a connection
	why      error         // the connection was lost, or the last attempt has failed
	identity wire.Controller
	maxData  int // of a command in bytes; set by the first association
	opened   *openNamespaces
	born     *atomic.Uint64 // associations so far
	access   chan struct{}  // one element: how the controller reaches namespaces may have changed
}

// Dial connects to a subsystem at "host:port", by its NQN. The context bounds the connecting.
func Dial(ctx context.Context, dev *verbs.Device, address, subsystem string, o HostOptions) (*Controller, error) {
	if err := CheckNQN(subsystem); err != nil {
		return nil, err
	}
	c, err := dial(ctx, dev, address, subsystem, o)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dial connects to a subsystem, the discovery service included.
func dial(ctx context.Context, dev *verbs.Device, address, subsystem string, o HostOptions) (*Controller, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Controller{dev: dev, addr: address, nqn: subsystem, opt: o, change: make(chan struct{}),
		opened: &openNamespaces{}, born: new(atomic.Uint64), access: make(chan struct{}, 1)}
	if o.paths != nil {
		c.opened, c.born = &o.paths.opened, &o.paths.born
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	a, err := c.associate(ctx)
	if err != nil {
		c.cancel(err)
		return nil, err
	}
	c.current, c.identity, c.maxData = a, a.identity, a.maxData
	c.running.Go(func() { c.supervise(a) })
	if c.wantedEvents(&a.identity) != 0 {
		c.running.Go(func() { c.events(a.generation) })
	}
	return c, nil
}

// wantedEvents returns the notices that the host asks for, among the controller's.
func (c *Controller) wantedEvents(id *wire.Controller) (events uint32) {
	if c.opt.Changed != nil {
		events = wire.EventNamespace
	}
	if c.opt.paths != nil {
		events |= wire.EventANA
	}
	return events & id.Events
}

// accessChanged has the paths learn anew how the controller reaches namespaces.
func (c *Controller) accessChanged() {
	select {
	case c.access <- struct{}{}:
	default:
	}
}

// events asks for events and tells the program of them. The program knows the association of a generation.
func (c *Controller) events(known uint64) {
	for {
		a, err := c.connected(c.ctx, "wait for an event")
		if err != nil {
			return
		}
		if a.generation != known {
			known = a.generation
			if c.opt.Changed != nil {
				c.opt.Changed(nil)
			}
		}
		done, err := a.admin.await(c.ctx, "wait for an event", &wire.Command{Opcode: wire.AdminAsyncEvent})
		switch {
		case isLost(err):
			continue
		case err != nil:
			a.fail(err)
			continue
		case done.Result&0xffffff == wire.EventANAChanged && c.opt.paths != nil:
			c.accessChanged()
			continue
		case done.Result&0xffffff != wire.EventNamespaceChanged || c.opt.Changed == nil:
			continue
		}
		b := make([]byte, wire.LogChangedSize)
		if err := c.log(c.ctx, wire.LogChanged, 0, b); err != nil {
			a.fail(err)
			continue
		}
		c.opt.Changed(wire.DecodeActive(b))
	}
}

// fail ends the controller: nothing is in flight any more, and calls return err.
func (c *Controller) fail(err error) { c.cancel(err) }

// Done is closed when the controller was closed or has failed for good; see [Controller.Err].
func (c *Controller) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the controller has ended; nil: it has not.
func (c *Controller) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("nvme: the controller of %s at %s has ended: %w", c.nqn, c.addr, context.Cause(c.ctx))
}

// Identity returns the controller's identity; the last one, if the connection is lost.
func (c *Controller) Identity() wire.Controller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// Close shuts the controller down, which flushes the disks if the target hears of it within a second, and ends the
// connections. Calls that are in flight return os.ErrClosed. Use [Disk.Flush] for data that must be durable.
func (c *Controller) Close() error {
	c.close.Do(func() {
		c.mu.Lock()
		a := c.current
		c.mu.Unlock()
		if a != nil && a.ctx.Err() == nil {
			a.shutDown()
		}
		c.fail(os.ErrClosed)
		c.running.Wait()
	})
	return nil
}
