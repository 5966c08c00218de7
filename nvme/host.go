// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of HostOptions.
const (
	DefaultHostDepth = 32
	DefaultHostData  = 128 << 10
	DefaultKeepAlive = 10 * time.Second
	DefaultTimeout   = 30 * time.Second
)

// HostOptions tune [Dial] and [Discover]. Zero values stand for the defaults.
type HostOptions struct {
	NQN    string   // the host's own; by default one is made of HostID
	HostID [16]byte // by default one is drawn

	Queues     int // I/O queues; default 1
	QueueDepth int // commands in flight on a queue, from 2 to 1024

	// MaxData is the most data of a command in bytes, at least 4096; longer reads and writes are several commands. A
	// queue takes QueueDepth × MaxData bytes of memory once so many commands were in flight.
	MaxData int

	// KeepAlive is after which time without a sign of the host the target gives it up; negative: never.
	KeepAlive time.Duration

	// Timeout is how long a command may take. Then the controller has failed.
	Timeout time.Duration

	// Changed is called with the numbers of namespaces that were added, removed or changed, by one goroutine. Close
	// waits for it to return.
	Changed func(namespaces []uint32)
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
	switch {
	case o.Queues < 1 || o.Queues > 1<<10:
		return o, fmt.Errorf("nvme: %d queues: take from 1 to 1024", o.Queues)
	case o.QueueDepth < 2 || o.QueueDepth > maxDepth:
		return o, fmt.Errorf("nvme: a queue depth of %d: take from 2 to %d", o.QueueDepth, maxDepth)
	case o.MaxData < 4096 || o.MaxData > wire.MaxKeyedLength:
		return o, fmt.Errorf("nvme: %d bytes of data in a command: take from 4096 to %d", o.MaxData,
			wire.MaxKeyedLength)
	case o.Timeout < 0:
		return o, errors.New("nvme: a negative timeout")
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

// Controller is a host's connection to a controller of a subsystem. All its methods may be called from several
// goroutines.
type Controller struct {
	dev  *verbs.Device
	addr string
	nqn  string
	opt  HostOptions

	ctx     context.Context // ends with the controller
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // keep-alive, events
	close   sync.Once

	id       uint16
	maxDepth int // that the controller takes
	identity wire.Controller
	maxData  int
	admin    *hostQueue
	io       []*hostQueue
	next     atomic.Uint32 // queue
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
	if err = c.start(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// dial connects the admin queue and enables the controller.
func dial(ctx context.Context, dev *verbs.Device, address, subsystem string, o HostOptions) (*Controller, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Controller{dev: dev, addr: address, nqn: subsystem, opt: o, id: wire.DynamicController, maxDepth: minDepth}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	// The admin queue's data are structures and log pages.
	if c.admin, err = c.connect(ctx, 0, minDepth, wire.IdentifySize, 0); err != nil {
		c.cancel(err)
		return nil, err
	}
	if err = c.enable(ctx); err != nil {
		c.Close()
		return nil, err
	}
	if o.KeepAlive > 0 {
		c.running.Go(c.keepAlive)
	}
	return c, nil
}

// enable enables the controller and learns what it is.
func (c *Controller) enable(ctx context.Context) error {
	capabilities, err := c.property(ctx, wire.PropertyCAP, 8)
	if err != nil {
		return err
	}
	if c.maxDepth = int(capabilities&0xffff) + 1; c.maxDepth < 2 {
		return fmt.Errorf("nvme: %s: the controller has queues of %d entry: at least 2 are needed", c.addr, c.maxDepth)
	}
	if capabilities>>48&0xf != 0 {
		return fmt.Errorf("nvme: %s: the controller has no pages of 4 KiB", c.addr)
	}
	var set wire.Command
	set.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable)
	if _, err := c.admin.do(ctx, "enable", &set, nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(capabilities>>24&0xff, 1))*500*time.Millisecond)
	defer cancel()
	for {
		status, err := c.property(ctx, wire.PropertyCSTS, 4)
		switch {
		case err != nil:
			return err
		case status&wire.CSTSFatal != 0:
			return fmt.Errorf("nvme: %s: the controller has a fatal status", c.addr)
		case status&wire.CSTSReady != 0:
			b, err := c.identify(ctx, "identify", wire.IdentifyController, 0)
			if err == nil {
				c.identity.Decode(b)
			}
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nvme: %s: the controller is not ready: %w", c.addr, ctx.Err())
		}
	}
}

// identify returns a structure that the controller has of itself or of a namespace.
func (c *Controller) identify(ctx context.Context, op string, which wire.CNS, namespace uint32) ([]byte, error) {
	b := make([]byte, wire.IdentifySize)
	cmd := wire.Command{Opcode: wire.AdminIdentify, NSID: namespace, CDW10: uint32(which)}
	_, err := c.admin.do(ctx, op, &cmd, nil, b)
	return b, err
}

func (c *Controller) property(ctx context.Context, p wire.Property, size int) (uint64, error) {
	var get wire.Command
	get.SetProperty(wire.PropertyGet, p, size, 0)
	done, err := c.admin.do(ctx, "property get", &get, nil, nil)
	return done.Result, err
}

// start connects the I/O queues.
func (c *Controller) start(ctx context.Context) error {
	id := &c.identity
	if id.SGLs&wire.SGLHasKeyed == 0 || id.CapsuleSize < wire.CommandSize/16 {
		return fmt.Errorf("nvme: %s: the controller has no keyed SGLs, or capsules of %d bytes", c.addr,
			uint64(id.CapsuleSize)*16)
	}
	c.maxData = c.opt.MaxData &^ 4095
	if id.MDTS > 0 && id.MDTS < 16 {
		c.maxData = min(c.maxData, 4096<<id.MDTS)
	}
	inline := 0
	if id.SGLs&wire.SGLHasOffset != 0 && id.DataOffset == 0 {
		inline = int(min(uint64(id.CapsuleSize)*16-wire.CommandSize, DefaultInCapsule))
	}
	n := uint32(c.opt.Queues - 1)
	set := wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureQueues), CDW11: n<<16 | n}
	done, err := c.admin.do(ctx, "set number of queues", &set, nil, nil)
	if err != nil {
		return err
	}
	queues := min(c.opt.Queues, int(done.Result&0xffff)+1, int(done.Result>>16&0xffff)+1)
	depth := min(c.opt.QueueDepth, c.maxDepth)
	if id.MaxCommands > 1 {
		depth = min(depth, int(id.MaxCommands))
	}
	for qid := 1; qid <= queues; qid++ {
		q, err := c.connect(ctx, uint16(qid), depth, c.maxData, inline)
		if err != nil {
			return err
		}
		c.io = append(c.io, q)
	}
	if c.opt.Changed != nil && id.Events&wire.EventNamespace != 0 {
		set := wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents),
			CDW11: wire.EventNamespace}
		if _, err := c.admin.do(ctx, "ask for events", &set, nil, nil); err != nil {
			return err
		}
		c.running.Go(c.events)
	}
	return nil
}

// connect connects a queue.
func (c *Controller) connect(ctx context.Context, qid uint16, depth, data, inline int) (*hostQueue, error) {
	q := &hostQueue{c: c, qid: qid, depth: depth, maxData: data, inline: inline}
	conn, err := cm.Dial(ctx, c.dev, c.addr, cm.WithSetup(q.setUp))
	if err != nil {
		q.free()
		var rejected *cm.RejectError
		var r wire.Reject
		if errors.As(err, &rejected) && rejected.Reason == cm.ReasonConsumer && r.Decode(rejected.PrivateData) &&
			r.Status != 0 {
			return nil, fmt.Errorf("nvme: %s rejected queue %d: %v: %w", c.addr, qid, r.Status, err)
		}
		return nil, fmt.Errorf("nvme: connecting queue %d: %w", qid, err)
	}
	q.start(conn)
	var cmd wire.Command
	kato := uint32(0)
	if qid == 0 && c.opt.KeepAlive > 0 {
		kato = uint32(max(c.opt.KeepAlive.Milliseconds(), 1))
	}
	cmd.SetConnect(&wire.ConnectParams{QID: qid, SQSize: uint16(depth - 1), KATO: kato})
	d := wire.ConnectData{HostID: c.opt.HostID, Controller: c.id, SubNQN: c.nqn, HostNQN: c.opt.NQN}
	done, err := q.do(ctx, "connect", &cmd, d.Append(nil), nil)
	if err != nil {
		q.close()
		return nil, fmt.Errorf("connecting to %s at %s: %w", c.nqn, c.addr, err)
	}
	if qid == 0 {
		c.id = uint16(done.Result)
	}
	return q, nil
}

// keepAlive tells the controller from time to time that the host is there.
func (c *Controller) keepAlive() {
	tick := time.NewTicker(max(c.opt.KeepAlive/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		if _, err := c.admin.do(c.ctx, "keep alive", &wire.Command{Opcode: wire.AdminKeepAlive}, nil, nil); err != nil {
			c.fail(err)
			return
		}
	}
}

// events asks for events and tells the program of them.
func (c *Controller) events() {
	for {
		done, err := c.admin.await(c.ctx, "wait for an event", &wire.Command{Opcode: wire.AdminAsyncEvent})
		if err != nil {
			if c.ctx.Err() == nil {
				c.fail(err)
			}
			return
		}
		if done.Result&0xffffff != wire.EventNamespaceChanged {
			continue
		}
		b := make([]byte, wire.LogChangedSize)
		if err := c.log(c.ctx, wire.LogChanged, 0, b); err != nil {
			c.fail(err)
			return
		}
		c.opt.Changed(wire.DecodeActive(b))
	}
}

// fail ends the controller: nothing is in flight any more, and calls return err.
func (c *Controller) fail(err error) { c.cancel(err) }

// Done is closed when the controller was closed or has failed; see [Controller.Err].
func (c *Controller) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the controller has ended; nil: it has not.
func (c *Controller) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("nvme: the controller of %s at %s has ended: %w", c.nqn, c.addr, context.Cause(c.ctx))
}

// Identity returns what the controller says of itself.
func (c *Controller) Identity() wire.Controller { return c.identity }

// Close shuts the controller down, which flushes the disks if the target hears of it within a second, and ends the
// connections. Calls that are in flight return os.ErrClosed. Use [Disk.Flush] for data that must be durable.
func (c *Controller) Close() error {
	c.close.Do(func() {
		if c.ctx.Err() == nil {
			const normal = 1 << 14
			var set wire.Command
			set.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable|normal)
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			c.admin.do(ctx, "shut down", &set, nil, nil) // a courtesy
			cancel()
		}
		c.fail(os.ErrClosed)
		c.running.Wait()
		for _, q := range slices.Backward(c.io) {
			q.close()
		}
		c.admin.close()
	})
	return nil
}
