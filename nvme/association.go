// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// association is the tie of a host to a controller: an admin queue and I/O queues (fabrics 1.5.7). It ends with the
// first of them. A [Controller] has one after the other.
type association struct {
	c          *Controller
	generation uint64 // from 1 on, in the order in which associations of the host came about

	ctx     context.Context // ends with the association, at the latest with the Controller
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // keep-alive
	closing sync.Once

	id       uint16
	maxDepth int // that the controller takes
	identity wire.Controller
	maxData  int
	admin    *hostQueue
	io       []*hostQueue
	next     atomic.Uint32 // queue
}

// associate connects to the controller and enables it; discovery controllers have no I/O queues.
func (c *Controller) associate(ctx context.Context) (a *association, err error) {
	a = &association{c: c, id: wire.DynamicController, maxDepth: minDepth}
	a.ctx, a.cancel = context.WithCancelCause(c.ctx)
	defer func() {
		if err != nil {
			a.close()
			a = nil
		}
	}()
	// The admin queue's data are structures and log pages.
	if a.admin, err = a.connect(ctx, 0, minDepth, wire.IdentifySize, 0); err != nil {
		return a, err
	}
	if err = a.enable(ctx); err != nil {
		return a, err
	}
	if c.opt.KeepAlive > 0 {
		a.running.Go(a.keepAlive)
	}
	if c.nqn != wire.DiscoveryNQN {
		if err = a.start(ctx); err != nil {
			return a, err
		}
	}
	if err = c.verify(ctx, a); err != nil {
		return a, err
	}
	a.generation = c.born.Add(1) // once it is there: see Disk.do
	return a, nil
}

// fail ends the association: commands in flight are lost.
func (a *association) fail(err error) { a.cancel(err) }

// shutDown asks the controller to shut down, which flushes the disks.
func (a *association) shutDown() {
	const normal = 1 << 14
	var set wire.Command
	set.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable|normal)
	ctx, cancel := context.WithTimeout(a.ctx, time.Second)
	defer cancel()
	a.admin.do(ctx, "shut down", &set, nil, nil) // a courtesy
}

// close ends the connections.
func (a *association) close() {
	a.closing.Do(func() {
		a.fail(os.ErrClosed)
		a.running.Wait()
		for _, q := range slices.Backward(a.io) {
			q.close()
		}
		if a.admin != nil {
			a.admin.close()
		}
	})
}

// enable enables the controller and identifies it.
func (a *association) enable(ctx context.Context) error {
	capabilities, err := a.property(ctx, wire.PropertyCAP, 8)
	if err != nil {
		return err
	}
	if a.maxDepth = int(capabilities&0xffff) + 1; a.maxDepth < 2 {
		return fmt.Errorf("nvme: %s: the controller has queues of %d entry: at least 2 are needed", a.c.addr,
			a.maxDepth)
	}
	if capabilities>>48&0xf != 0 {
		return fmt.Errorf("nvme: %s: the controller has no pages of 4 KiB", a.c.addr)
	}
	var set wire.Command
	set.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable)
	if _, err := a.admin.do(ctx, "enable", &set, nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(capabilities>>24&0xff, 1))*500*time.Millisecond)
	defer cancel()
	for {
		status, err := a.property(ctx, wire.PropertyCSTS, 4)
		switch {
		case err != nil:
			return err
		case status&wire.CSTSFatal != 0:
			return fmt.Errorf("nvme: %s: the controller has a fatal status", a.c.addr)
		case status&wire.CSTSReady != 0:
			b, err := a.identify(ctx, "identify", wire.IdentifyController, 0)
			if err == nil {
				a.identity.Decode(b)
			}
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nvme: %s: the controller is not ready: %w", a.c.addr, ctx.Err())
		}
	}
}

// identify returns a structure that the controller has of itself or of a namespace.
func (a *association) identify(ctx context.Context, op string, which wire.CNS, namespace uint32) ([]byte, error) {
	b := make([]byte, wire.IdentifySize)
	cmd := wire.Command{Opcode: wire.AdminIdentify, NSID: namespace, CDW10: uint32(which)}
	_, err := a.admin.do(ctx, op, &cmd, nil, b)
	return b, err
}

func (a *association) property(ctx context.Context, p wire.Property, size int) (uint64, error) {
	var get wire.Command
	get.SetProperty(wire.PropertyGet, p, size, 0)
	done, err := a.admin.do(ctx, "property get", &get, nil, nil)
	return done.Result, err
}

// start connects the I/O queues.
func (a *association) start(ctx context.Context) error {
	id := &a.identity
	if id.SGLs&wire.SGLHasKeyed == 0 || id.CapsuleSize < wire.CommandSize/16 {
		return fmt.Errorf("nvme: %s: the controller has no keyed SGLs, or capsules of %d bytes", a.c.addr,
			uint64(id.CapsuleSize)*16)
	}
	a.maxData = a.c.opt.MaxData &^ 4095
	if id.MDTS > 0 && id.MDTS < 16 {
		a.maxData = min(a.maxData, 4096<<id.MDTS)
	}
	inline := 0
	if id.SGLs&wire.SGLHasOffset != 0 && id.DataOffset == 0 {
		inline = int(min(uint64(id.CapsuleSize)*16-wire.CommandSize, DefaultInCapsule))
	}
	n := uint32(a.c.opt.Queues - 1)
	set := wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureQueues), CDW11: n<<16 | n}
	done, err := a.admin.do(ctx, "set number of queues", &set, nil, nil)
	if err != nil {
		return err
	}
	queues := min(a.c.opt.Queues, int(done.Result&0xffff)+1, int(done.Result>>16&0xffff)+1)
	depth := min(a.c.opt.QueueDepth, a.maxDepth)
	if id.MaxCommands > 1 {
		depth = min(depth, int(id.MaxCommands))
	}
	for qid := 1; qid <= queues; qid++ {
		q, err := a.connect(ctx, uint16(qid), depth, a.maxData, inline)
		if err != nil {
			return err
		}
		a.io = append(a.io, q)
	}
	wanted := a.c.wantedEvents(id)
	if wanted == 0 {
		return nil
	}
	events := wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents), CDW11: wanted}
	_, err = a.admin.do(ctx, "ask for events", &events, nil, nil)
	return err
}

// connect connects a queue.
func (a *association) connect(ctx context.Context, qid uint16, depth, data, inline int) (*hostQueue, error) {
	q := &hostQueue{a: a, qid: qid, depth: depth, maxData: data, inline: inline}
	conn, err := cm.Dial(ctx, a.c.dev, a.c.addr, cm.WithSetup(q.setUp))
	if err != nil {
		q.free()
		var rejected *cm.RejectError
		var r wire.Reject
		if errors.As(err, &rejected) && rejected.Reason == cm.ReasonConsumer && r.Decode(rejected.PrivateData) &&
			r.Status != 0 {
			return nil, fmt.Errorf("nvme: %s rejected queue %d: %v: %w", a.c.addr, qid, r.Status, err)
		}
		return nil, fmt.Errorf("nvme: connecting queue %d: %w", qid, err)
	}
	q.start(conn)
	var cmd wire.Command
	kato := uint32(0)
	if qid == 0 && a.c.opt.KeepAlive > 0 {
		kato = uint32(max(a.c.opt.KeepAlive.Milliseconds(), 1))
	}
	cmd.SetConnect(&wire.ConnectParams{QID: qid, SQSize: uint16(depth - 1), KATO: kato})
	d := wire.ConnectData{HostID: a.c.opt.HostID, Controller: a.id, SubNQN: a.c.nqn, HostNQN: a.c.opt.NQN}
	done, err := q.do(ctx, "connect", &cmd, d.Append(nil), nil)
	if err == nil {
		err = q.authenticate(ctx, done.Result)
	}
	if err != nil {
		var r *CommandError
		if qid > 0 && errors.As(err, &r) {
			// a target that has started since does not know the controller: the next attempt has a new one
			r.Retry = true
		}
		a.fail(err)
		q.close()
		return nil, fmt.Errorf("connecting to %s at %s: %w", a.c.nqn, a.c.addr, err)
	}
	if qid == 0 {
		a.id = uint16(done.Result)
	}
	return q, nil
}

// keepAlive tells the controller from time to time that the host is there.
func (a *association) keepAlive() {
	tick := time.NewTicker(max(a.c.opt.KeepAlive/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			return
		}
		if _, err := a.admin.do(a.ctx, "keep alive", &wire.Command{Opcode: wire.AdminKeepAlive}, nil, nil); err != nil {
			a.fail(err)
			return
		}
	}
}
