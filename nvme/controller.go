// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// controller is the controller that a host is associated with: an admin queue, I/O queues and their common state.
type controller struct {
	t       *Target
	sub     *Subsystem // nil: a discovery controller
	id      uint16
	hostNQN string
	hostID  [16]byte
	admin   *queue

	mu       sync.Mutex
	cc, csts uint32
	queues   map[uint16]*queue // I/O queues
	linked   int               // queues that have connected and are not yet served to their end
	ended    bool

	keepAlive time.Duration // 0: none; whole seconds
	timer     *time.Timer

	config     uint32     // which events the host wants (feature 0x0b)
	hints      [16]uint32 // features that have no effect here, by number; mandatory all the same (base 5.21.1)
	waiting    []*request // for events
	namespaces event
	discovery  event
	access     event
	changes    []uint32 // namespaces since the log was read

	errors   [errorEntries]wire.ErrorEntry // the last ones, by their count
	failures uint64
	health   wire.Health
}

// event is a kind of event.
type event struct {
	result uint64 // of a request for events
	bit    uint32 // in the configuration
	due    bool
	masked bool // the host was told, and has not read the log since
}

const (
	errorEntries = 64
	eventLimit   = 4 // requests for events at once
	abortLimit   = 4
)

// newController adds a controller; nil: there are too many, or disks still work on commands of one that the host has
// lost. These might otherwise write after the host's next commands.
func (t *Target) newController(q *queue, sub *Subsystem, d *wire.ConnectData) *controller {
	c := &controller{t: t, sub: sub, hostNQN: d.HostNQN, hostID: d.HostID, admin: q, linked: 1,
		queues:     map[uint16]*queue{},
		namespaces: event{result: wire.EventNamespaceChanged, bit: wire.EventNamespace},
		discovery:  event{result: wire.EventDiscoveryChanged, bit: wire.EventDiscovery},
		access:     event{result: wire.EventANAChanged, bit: wire.EventANA}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.controllers) >= t.opt.Controllers {
		return nil
	}
	for o := range t.draining {
		if sub != nil && o.sameHost(c) {
			return nil
		}
	}
	for _, o := range t.controllers {
		if sub != nil && o.sameHost(c) && o.admin.gone() {
			return nil
		}
	}
	for { // numbers come round late: a host that talks to one that has ended does not find another
		if t.lastID++; t.lastID >= 0xfff0 {
			t.lastID = 1
		}
		if t.controllers[t.lastID] == nil {
			break
		}
	}
	c.id = t.lastID
	t.controllers[c.id] = c
	return c
}

// sameHost reports whether both are controllers of the same host and subsystem.
func (c *controller) sameHost(o *controller) bool {
	return c.sub == o.sub && c.hostNQN == o.hostNQN && c.hostID == o.hostID
}

// enabled reports whether the controller takes commands other than of fabrics.
func (c *controller) enabled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.csts&wire.CSTSReady != 0
}

// lost takes note that a queue has ended. With the admin queue the controller ends.
func (c *controller) lost(q *queue) {
	c.mu.Lock()
	var all []*queue
	if q == c.admin {
		all = c.end()
	} else if c.queues[q.req.QID] == q {
		delete(c.queues, q.req.QID)
	}
	c.mu.Unlock()
	for _, o := range all {
		o.fail(errors.New("the admin queue has ended"))
	}
	if q == c.admin {
		c.t.mu.Lock()
		if c.t.controllers[c.id] == c {
			delete(c.t.controllers, c.id)
			c.t.draining[c] = make(chan struct{})
		}
		c.t.mu.Unlock()
	}
}

// drained takes note that a queue that has ended has no command any more that a disk works on. With the last one the
// host may have another controller.
func (c *controller) drained() {
	c.mu.Lock()
	c.linked--
	last := c.linked == 0 && c.ended
	c.mu.Unlock()
	if last {
		c.t.mu.Lock()
		if done := c.t.draining[c]; done != nil {
			close(done)
			delete(c.t.draining, c)
		}
		c.t.mu.Unlock()
	}
}

// lostBusy returns a channel that is closed when disks have done with the commands of a controller that the host has
// lost; nil: there is none.
func (c *controller) lostBusy() (done chan struct{}) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	for o, d := range c.t.draining {
		if o != c && o.sameHost(c) {
			done = d
		}
	}
	return done
}

// settled waits until disks have done with the commands of controllers that the host has lost. A host with several
// controllers repeats commands that were in flight by another one: the old command is not carried out after the new
// one.
func (r *request) settled(c *controller) wire.Status {
	for {
		busy := c.lostBusy()
		if busy == nil {
			return wire.Success
		}
		select {
		case <-busy:
		case <-r.q.ctx.Done():
			return errEnded
		}
	}
}

// end marks the controller as ended and returns its I/O queues. mu is held.
func (c *controller) end() (all []*queue) {
	c.ended = true
	c.csts &^= wire.CSTSReady
	if c.timer != nil {
		c.timer.Stop()
	}
	c.waiting = nil
	return c.reset()
}

// reset takes all I/O queues from the controller. mu is held.
func (c *controller) reset() (all []*queue) {
	for _, q := range c.queues {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queue) int { return int(a.req.QID) - int(b.req.QID) })
	clear(c.queues)
	return all
}

const (
	keepAliveUnit      = time.Second     // timeouts are rounded up to whole ones (KAS)
	discoveryKeepAlive = 2 * time.Minute // of a host that names no timeout
)

// setKeepAlive sets the timeout of the keep-alive, in ms; 0: none, but for a discovery controller, which hosts leave
// soon. mu is held.
func (c *controller) setKeepAlive(ms uint32) {
	c.keepAlive = (time.Duration(ms)*time.Millisecond + keepAliveUnit - 1).Truncate(keepAliveUnit)
	if c.keepAlive == 0 && c.sub == nil {
		c.keepAlive = discoveryKeepAlive
	}
	if c.keepAlive == 0 {
		if c.timer != nil {
			c.timer.Stop()
		}
		return
	}
	c.touch()
}

// touch begins the keep-alive timeout anew. mu is held.
func (c *controller) touch() {
	switch {
	case c.keepAlive == 0 || c.ended:
	case c.timer == nil:
		c.timer = time.AfterFunc(c.keepAlive, c.expired)
	default:
		c.timer.Reset(c.keepAlive)
	}
}

// expired runs when no keep-alive came in time: the association ends (fabrics 7.1).
func (c *controller) expired() {
	c.mu.Lock()
	after := c.keepAlive
	c.csts |= wire.CSTSFatal
	c.mu.Unlock()
	c.admin.fail(fmt.Errorf("%w: none within %v", wire.KeepAliveExpired, after))
}

// set sets the controller configuration (base 3.1.5).
func (c *controller) set(cc uint32) {
	c.mu.Lock()
	before := c.cc
	c.cc = cc
	var stopped []*queue
	switch on := cc&wire.CCEnable != 0; {
	case on && before&wire.CCEnable == 0:
		c.csts = wire.CSTSReady
		if cc&0xff_fff0&^(0xf<<20|0xf<<16|wire.CCShutdownMask) != 0 || c.sub != nil &&
			cc>>16&0xff != wire.CCDefaultEnable>>16 {
			c.csts = wire.CSTSFatal // another page size, command set, arbitration or size of entries
		}
		c.touch()
	case !on && before&wire.CCEnable != 0:
		c.csts, c.config = 0, 0
		stopped = c.reset()
	}
	c.mu.Unlock()
	for _, q := range stopped {
		q.fail(errors.New("the host has reset the controller"))
	}
}

// shutDown makes the written data durable, and then says so in CSTS (base 3.6.1). A disk that fails is in the log.
func (c *controller) shutDown() {
	if c.sub != nil {
		for _, id := range c.sub.after(0) {
			ns := c.sub.namespace(id)
			if ns == nil { // it was removed meanwhile
				continue
			}
			if err := ns.sync(); err != nil {
				c.t.log.Error("a disk has failed at a shutdown", "subsystem", c.sub.opt.NQN, "namespace", id,
					"error", err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.csts |= wire.CSTSShutdown
}

// namespaceChanged takes note that a namespace was added or removed.
func (c *controller) namespaceChanged(id uint32) {
	c.mu.Lock()
	if !slices.Contains(c.changes, id) {
		c.changes = append(c.changes, id)
	}
	c.mu.Unlock()
	c.notify(&c.namespaces)
}

// notify takes note of an event.
func (c *controller) notify(e *event) {
	c.mu.Lock()
	e.due = true
	c.mu.Unlock()
	c.tell()
}

// tell answers requests for events that there are. It does not wait: a host that takes no responses holds up nobody
// else.
func (c *controller) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range [...]*event{&c.namespaces, &c.discovery, &c.access} {
		if e.due && !e.masked && c.config&e.bit != 0 && len(c.waiting) > 0 {
			e.due, e.masked = false, true
			r := c.waiting[0]
			c.waiting = c.waiting[1:]
			r.result = e.result
			r.q.running.Go(func() { r.respond(wire.Success) }) // the queue waits for it: see asyncEvent
		}
	}
}

// logError adds an entry to the error log.
func (c *controller) logError(r *request, s wire.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.errors[c.failures%errorEntries] = wire.ErrorEntry{Count: c.failures, SQID: r.q.req.QID, CID: r.cmd.CID, Status: s,
		LBA:  r.note.lba,
		NSID: r.cmd.NSID, Location: 0xffff}
}

// count counts a read or write for the health log.
func (c *controller) count(write bool, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if write {
		c.health.Writes++
		c.health.BytesWrote += uint64(n)
	} else {
		c.health.Reads++
		c.health.BytesRead += uint64(n)
	}
}
