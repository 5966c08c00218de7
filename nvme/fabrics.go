// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// fabrics carries out a fabrics command (fabrics 3).
func (r *request) fabrics(c *controller) wire.Status {
	switch t := r.cmd.FabricsType(); {
	case t == wire.Connect:
		return r.connect()
	case c == nil:
		return wire.CommandSequenceError
	case t == wire.AuthSend:
		return r.authSend()
	case t == wire.AuthReceive:
		return r.authReceive()
	case r.q.locked.Load():
		return wire.AuthenticationRequired
	case r.q.req.QID != 0:
		return wire.InvalidOpcode // properties are the admin queue's
	case t == wire.PropertyGet:
		return r.propertyGet(c)
	case t == wire.PropertySet:
		return r.propertySet(c)
	}
	return wire.InvalidOpcode
}

// invalid returns the status of a Connect with an invalid field.
func (r *request) invalid(offset uint16, inData bool) wire.Status {
	r.result = wire.InvalidConnect(offset, inData)
	return wire.ConnectInvalidParameters
}

// connect carries out Connect (fabrics 3.3).
func (r *request) connect() wire.Status {
	q, p := r.q, r.cmd.Connect()
	b, s := r.pull(wire.ConnectDataSize, 0)
	if s != wire.Success {
		return s
	}
	q.linked.Lock()
	defer q.linked.Unlock()
	var d wire.ConnectData
	switch {
	case q.ctrl.Load() != nil:
		return wire.CommandSequenceError
	case p.Format != 0:
		return wire.ConnectIncompatibleFormat
	case p.QID != q.req.QID:
		return r.invalid(wire.ConnectOffsetQID, false)
	case p.SQSize == 0 || int(p.SQSize) >= q.depth:
		return r.invalid(wire.ConnectOffsetSQSize, false)
	case !d.Decode(b) && d.SubNQN == "":
		return r.invalid(wire.ConnectOffsetSubNQN, true)
	case d.HostID == [16]byte{}:
		return r.invalid(wire.ConnectOffsetHostID, true)
	case d.HostNQN == "":
		return r.invalid(wire.ConnectOffsetHostNQN, true)
	}
	if p.Attributes&wire.ConnectNoFlowControl == 0 {
		q.size.Store(uint32(p.SQSize) + 1)
	}
	if p.QID != 0 {
		return r.connectIO(&d)
	}
	return r.connectAdmin(&p, &d)
}

// connectAdmin makes a controller.
func (r *request) connectAdmin(p *wire.ConnectParams, d *wire.ConnectData) wire.Status {
	var sub *Subsystem
	if d.SubNQN != wire.DiscoveryNQN {
		r.q.t.mu.Lock()
		sub = r.q.t.subsystems[d.SubNQN]
		r.q.t.mu.Unlock()
		if sub == nil {
			return r.invalid(wire.ConnectOffsetSubNQN, true)
		}
		if !sub.allows(d.HostNQN) {
			r.q.t.log.Warn("refused a host", "peer", r.q.peer, "host", d.HostNQN, "subsystem", d.SubNQN)
			r.result = wire.InvalidConnect(wire.ConnectOffsetHostNQN, true)
			return wire.ConnectInvalidHost
		}
	}
	if d.Controller != wire.DynamicController {
		return r.invalid(wire.ConnectOffsetCNTLID, true)
	}
	c := r.q.t.newController(r.q, sub, d)
	if c == nil {
		return wire.ConnectControllerBusy
	}
	c.mu.Lock()
	c.setKeepAlive(p.KATO)
	c.mu.Unlock()
	r.result = uint64(c.id) | r.q.lock(c)
	r.q.ctrl.Store(c)
	r.q.t.log.Info("a host has connected", "peer", r.q.peer, "host", d.HostNQN, "subsystem", d.SubNQN, "controller",
		c.id)
	return wire.Success
}

// connectIO adds a queue to a controller.
func (r *request) connectIO(d *wire.ConnectData) wire.Status {
	r.q.t.mu.Lock()
	c := r.q.t.controllers[d.Controller]
	r.q.t.mu.Unlock()
	switch {
	case c == nil || c.sub == nil:
		return r.invalid(wire.ConnectOffsetCNTLID, true)
	case c.sub.opt.NQN != d.SubNQN:
		return r.invalid(wire.ConnectOffsetSubNQN, true)
	case c.hostNQN != d.HostNQN || c.hostID != d.HostID:
		return r.invalid(wire.ConnectOffsetHostNQN, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended || c.csts&wire.CSTSReady == 0:
		return wire.CommandSequenceError
	case c.queues[r.q.req.QID] != nil:
		return r.invalid(wire.ConnectOffsetQID, false)
	}
	c.queues[r.q.req.QID] = r.q
	c.linked++
	r.result = uint64(c.id) | r.q.lock(c)
	r.q.ctrl.Store(c)
	return wire.Success
}

// capabilities returns the property CAP (base 3.1.1).
func (c *controller) capabilities() uint64 {
	const timeout = 10 // of enabling, in 500 ms
	return uint64(c.t.opt.QueueDepth-1) | wire.CapContiguous | timeout<<24 | wire.CapNVM
}

func (r *request) propertyGet(c *controller) wire.Status {
	p, size, _ := r.cmd.Property()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p == wire.PropertyCAP && size == 8:
		r.result = c.capabilities()
	case p == wire.PropertyVS && size == 4:
		r.result = wire.Version14
	case p == wire.PropertyCC && size == 4:
		r.result = uint64(c.cc)
	case p == wire.PropertyCSTS && size == 4:
		r.result = uint64(c.csts)
	default:
		return wire.InvalidField
	}
	return wire.Success
}

func (r *request) propertySet(c *controller) wire.Status {
	p, size, value := r.cmd.Property()
	if p != wire.PropertyCC || size != 4 {
		return wire.InvalidField
	}
	c.set(uint32(value))
	if value&wire.CCShutdownMask != 0 {
		c.shutDown()
	}
	return wire.Success
}
