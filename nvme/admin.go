// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// serialOf makes a serial number of an NQN.
func serialOf(nqn string) string {
	sum := sha256.Sum256([]byte(nqn))
	return hex.EncodeToString(sum[:10])
}

// admin carries out a command of the admin queue (base 5).
func (r *request) admin(c *controller) wire.Status {
	switch r.cmd.Opcode {
	case wire.AdminIdentify:
		return r.identify(c)
	case wire.AdminGetLogPage:
		return r.logPage(c)
	case wire.AdminKeepAlive:
		c.mu.Lock()
		c.touch()
		c.mu.Unlock()
		return wire.Success
	case wire.AdminAsyncEvent:
		return r.asyncEvent(c)
	case wire.AdminSetFeatures:
		return r.setFeature(c)
	case wire.AdminGetFeatures:
		return r.getFeature(c)
	case wire.AdminAbort:
		if c.sub != nil {
			return r.abort(c)
		}
	}
	return wire.InvalidOpcode
}

// identify carries out Identify (base 5.15).
func (r *request) identify(c *controller) wire.Status {
	cns := wire.CNS(r.cmd.CDW10)
	if cns == wire.IdentifyController {
		return r.give(c.identity().Append(nil))
	}
	if c.sub == nil {
		return wire.InvalidField
	}
	id := r.cmd.NSID
	if cns == wire.IdentifyActive {
		if id >= 0xfffffffe {
			return wire.InvalidNamespace
		}
		return r.give(wire.AppendActive(nil, c.sub.after(id)))
	}
	if cns != wire.IdentifyNamespace && cns != wire.IdentifyDescriptors {
		return wire.InvalidField
	}
	ns := c.sub.namespace(id)
	switch {
	case id == 0 || id > MaxNamespaces || ns == nil && cns == wire.IdentifyDescriptors:
		return wire.InvalidNamespace
	case ns == nil: // one that is not there is all zeros
		return r.give(make([]byte, wire.IdentifySize))
	case cns == wire.IdentifyDescriptors:
		return r.give(wire.AppendDescriptors(nil, ns.UUID, ns.UUID))
	}
	return r.give((&wire.Namespace{Blocks: ns.blocks, BlockSize: uint32(ns.BlockSize), Deallocates: ns.dealloc != nil,
		Shared: true, Group: ns.Group,
		ReadOnly: !ns.Writable, NGUID: ns.UUID}).Append(nil))
}

// anaTime is how long hosts wait for a change of access to end, in seconds.
const anaTime = 10

// firmware is the revision that a controller says it has.
const firmware = "1"

// identity is the controller's identity.
func (c *controller) identity() *wire.Controller {
	id := wire.Controller{
		Serial: "discovery", Model: "Ramjet", Firmware: firmware, SubNQN: wire.DiscoveryNQN,
		ID: c.id, Type: wire.TypeDiscovery, Version: wire.Version14, MDTS: 8,
		Events: wire.EventDiscovery, EventLimit: eventLimit - 1, AbortLimit: abortLimit - 1,
		LogPages: 1 << 2, ErrorEntries: errorEntries - 1,
		KeepAlive:   uint16(keepAliveUnit / (100 * time.Millisecond)),
		MaxCommands: uint16(c.t.opt.QueueDepth),
		SGLs:        wire.SGLSupported | wire.SGLHasKeyed | wire.SGLHasOffset,
		CapsuleSize: wire.CommandSize / 16, ResponseSize: wire.CompletionSize / 16, DataBlocks: 1,
	}
	if c.sub != nil {
		id.Serial, id.Model, id.SubNQN = c.sub.opt.Serial, c.sub.opt.Model, c.sub.opt.NQN
		id.Type, id.Shared, id.Namespaces = wire.TypeIO, true, MaxNamespaces
		id.Events = wire.EventNamespace | wire.EventANA
		id.ANA, id.ANATime, id.ANAGroups = wire.ANAReportsAll|wire.ANAGroupStays, anaTime, MaxGroups
		id.Commands, id.WriteCache = wire.HasCompare|wire.HasDatasetManagement|wire.HasWriteZeroes, true
		id.Firmwares = wire.OneFirmware
		id.CapsuleSize = uint32(wire.CommandSize+c.t.opt.InCapsule) / 16
	}
	return &id
}

// logPage carries out Get Log Page (base 5.14).
func (r *request) logPage(c *controller) wire.Status {
	id, off, n, retain := r.cmd.LogPage()
	if n > MaxData || off%4 != 0 {
		return wire.InvalidField
	}
	to, s := r.room(int(n)) // before the page is read: bytes that the host does not get do not count as read
	if s != wire.Success {
		return s
	}
	var page []byte
	var read *event // by the host that reads the page
	switch {
	case id == wire.LogErrors:
		page = c.errorLog()
	case c.sub == nil && id == wire.LogDiscovery:
		page, read = c.discoveryLog(), &c.discovery
	case c.sub != nil && id == wire.LogHealth:
		page = c.healthLog()
	case c.sub != nil && id == wire.LogFirmware:
		page = wire.AppendFirmware(nil, firmware)
	case c.sub != nil && id == wire.LogChanged:
		page, read = c.changedLog(!retain && off == 0), &c.namespaces
	case c.sub != nil && id == wire.LogANA:
		page, read = c.accessLog(r.cmd.CDW10&wire.ANAGroupsOnly != 0), &c.access
	default:
		return wire.InvalidLogPage
	}
	if off > uint64(len(page)) {
		return wire.InvalidField
	}
	clear(to[copy(to, page[off:]):])
	if read != nil && !retain {
		c.mu.Lock()
		read.masked = false
		c.mu.Unlock()
		c.tell()
	}
	return wire.Success
}

// errorLog returns the error log, the newest entry first.
func (c *controller) errorLog() (page []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.errors[:])
	slices.SortFunc(list, func(a, b wire.ErrorEntry) int { return cmp.Compare(b.Count, a.Count) })
	for i := range list {
		page = list[i].Append(page)
	}
	return page
}

func (c *controller) healthLog() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health
	h.ErrorEntries = c.failures
	return h.Append(nil)
}

// changedLog returns the list of changed namespaces. It begins it anew if clear is set.
func (c *controller) changedLog(clear bool) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.changes)
	page := wire.AppendActive(nil, c.changes)
	if clear {
		c.changes = nil
	}
	return page
}

// discoveryLog returns the discovery log: each subsystem that lets the host in, at each port, and the discovery
// services that the target refers to (fabrics 5.3).
func (c *controller) discoveryLog() []byte {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for nqn, s := range t.subsystems {
		if s.allows(c.hostNQN) {
			names = append(names, nqn)
		}
	}
	slices.Sort(names)
	head := wire.DiscoveryHead{Generation: t.generation}
	var entries []byte
	add := func(e wire.DiscoveryEntry, at netip.AddrPort) {
		e.Transport, e.Family, e.Secure = wire.TransportRDMA, wire.FamilyIPv4, wire.NoSecureChannel
		if at.Addr().Is6() {
			e.Family = wire.FamilyIPv6
		}
		e.Controller, e.AdminSize = wire.DynamicController, minDepth
		e.Address, e.Service = at.Addr().WithZone("").String(), strconv.Itoa(int(at.Port()))
		e.QPType, e.CM = wire.ServiceRC, wire.ConnectRDMACM
		entries = e.Append(entries)
		head.Records++
	}
	for _, p := range t.ports {
		if p == nil {
			continue
		}
		for _, nqn := range names {
			add(wire.DiscoveryEntry{Type: wire.EntrySubsystem, Port: uint16(p.number), SubNQN: nqn,
				Provider: p.provider},
				p.Addr())
		}
	}
	for _, at := range t.referrals {
		add(wire.DiscoveryEntry{Type: wire.EntryReferral, SubNQN: wire.DiscoveryNQN, Provider: wire.ProviderNone}, at)
	}
	return append(head.Append(nil), entries...)
}

// asyncEvent keeps a request until there is an event.
func (r *request) asyncEvent(c *controller) wire.Status {
	c.mu.Lock()
	switch {
	case c.ended || r.q.ctx.Err() != nil: // nothing waits on a queue that waits for its last command
		c.mu.Unlock()
		return errEnded
	case len(c.waiting) == eventLimit:
		c.mu.Unlock()
		return wire.AsyncEventLimitExceeded
	}
	c.waiting = append(c.waiting, r)
	c.mu.Unlock()
	c.tell()
	return errLater
}

// abort carries out Abort (base 5.1): of requests for events. Nothing else can be called back.
func (r *request) abort(c *controller) wire.Status {
	const notAborted = 1
	r.result = notAborted
	sqid, cid := uint16(r.cmd.CDW10), uint16(r.cmd.CDW10>>16)
	if sqid != 0 {
		return wire.Success
	}
	c.mu.Lock()
	i := slices.IndexFunc(c.waiting, func(w *request) bool { return w.cmd.CID == cid })
	var w *request
	if i >= 0 {
		w = c.waiting[i]
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if w != nil {
		w.respond(wire.AbortRequested)
		r.result = 0
	}
	return wire.Success
}

// isHint reports whether a controller takes a feature, and has no use for it.
func isHint(f wire.Feature) bool {
	switch f {
	case wire.FeatureArbitration, wire.FeaturePower, wire.FeatureTemperature, wire.FeatureErrorRecovery,
		wire.FeatureAtomicity:
		return true
	}
	return false
}

// setFeature carries out Set Features (base 5.21).
func (r *request) setFeature(c *controller) wire.Status {
	const save = 1 << 31
	if r.cmd.CDW10&save != 0 {
		return wire.FeatureNotSaveable
	}
	value := r.cmd.CDW11
	defer c.tell() // events that the host has not asked for before
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f := wire.Feature(r.cmd.CDW10); {
	case f == wire.FeatureKeepAlive:
		c.setKeepAlive(value)
	case f == wire.FeatureAsyncEvents:
		known := c.namespaces.bit | c.access.bit
		if c.sub == nil {
			known = c.discovery.bit
		}
		if value&^(known|0xff) != 0 { // events of health never come
			return wire.InvalidField
		}
		c.config = value
	case f == wire.FeatureQueues && c.sub != nil:
		if value&0xffff == 0xffff || value>>16 == 0xffff {
			return wire.InvalidField
		}
		if len(c.queues) > 0 {
			return wire.CommandSequenceError
		}
		most := uint32(c.t.opt.Queues - 1)
		r.result = uint64(min(value>>16, most)<<16 | min(value&0xffff, most))
	case f == wire.FeatureWriteCache && c.sub != nil:
		if value&1 == 0 {
			return wire.FeatureNotChangeable
		}
	case isHint(f) && c.sub != nil:
		if f == wire.FeaturePower && value&0x1f != 0 { // there is one power state
			return wire.InvalidField
		}
		c.hints[f] = value
	case f == wire.FeatureHostID: // it came with Connect
		return wire.CommandSequenceError
	default:
		return wire.InvalidField
	}
	return wire.Success
}

// getFeature carries out Get Features (base 5.13).
func (r *request) getFeature(c *controller) wire.Status {
	const which = 7 << 8 // values other than the current one
	if r.cmd.CDW10&which != 0 {
		return wire.InvalidField
	}
	f := wire.Feature(r.cmd.CDW10)
	if f == wire.FeatureHostID {
		const extended = 1 // 16 bytes, as always over fabrics
		if r.cmd.CDW11&extended == 0 {
			return wire.InvalidField
		}
		return r.give(c.hostID[:])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f == wire.FeatureKeepAlive:
		r.result = uint64(c.keepAlive.Milliseconds())
	case f == wire.FeatureAsyncEvents:
		r.result = uint64(c.config)
	case f == wire.FeatureQueues && c.sub != nil:
		most := uint64(c.t.opt.Queues - 1)
		r.result = most<<16 | most
	case f == wire.FeatureWriteCache && c.sub != nil:
		r.result = 1
	case isHint(f) && c.sub != nil:
		r.result = uint64(c.hints[f])
	default:
		return wire.InvalidField
	}
	return wire.Success
}
