// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// remoteRights are the rights of a region that give its key to peers.
const remoteRights = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

// Freed checks memory of a region that a C program has given up, from start to end. remote says that the region gives
// rights to peers.
func (c *Checker) Freed(mr *verbs.MR, start, end uint64, how string, remote bool) {
	d := c.deviceOf(mr)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.known.all[mr]
	if o == nil || o.gone != nil {
		return
	}
	f := &Finding{Rule: MemoryFreed, Places: []Place{at("It was freed (" + how + ")"), o.made}}
	f.Places[1].What = "It was registered"
	for _, r := range inOrder(d.posted) {
		if r.recvs == nil && !r.signaled && !operations[r.op].results {
			continue // the program may know from its peer that it has been sent
		}
		for i := range r.pieces {
			p := &r.pieces[i]
			from := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p.mem))))
			if p.region.mr == mr && from < end && start < from+uint64(len(p.mem)) {
				f.Detail = fmt.Sprintf("Memory of %s was freed, and %s of %s uses it.", o.name(), r.name(), d.queue(r))
				f.Places = append(f.Places, r.posted)
				d.c.Report(f)
				return
			}
		}
	}
	if how == "free" || how == "realloc" { // back to the heap
		o.cached = o.cached || f.Places[0].Stack.module() != o.made.Stack.module()
		if o.cached {
			return
		}
	}
	if remote && d.reachable(o.pd) {
		f.Detail = fmt.Sprintf("Memory of %s was freed, and peers can use its key %#x.", o.name(), uint32(mr.RKey()))
		d.c.Report(f)
	}
}

// mapped reports whether the ends of memory are mapped.
func mapped(b []byte) bool {
	return len(b) == 0 || sum(b[:1]) != 0 && sum(b[len(b)-1:]) != 0
}

// unmapped reports a posted work request of a Go program whose memory is no longer mapped. Of C programs
// [Checker.Freed] learns that at once.
func (d *Device) unmapped(r *request) {
	if d.c.handles != nil {
		return
	}
	for i := range r.pieces {
		p := &r.pieces[i]
		if mapped(p.mem) {
			continue
		}
		d.foundFreed(p.region, fmt.Sprintf("%s of %s uses it", r.name(), d.queue(r)), r.posted)
		return
	}
}

// leftUnmapped reports work requests of a queue pair that is about to end.
func (d *Device) leftUnmapped(q *queuePair) {
	for _, r := range q.sends {
		d.unmapped(r)
	}
	for _, r := range q.recvs.recvs {
		d.unmapped(r)
	}
}

// reachedUnmapped reports a region of a Go program that is about to end, which peers could reach when its memory was no
// longer mapped.
func (d *Device) reachedUnmapped(mr *verbs.MR) {
	r := d.known.regions[mr.LKey()]
	if d.c.handles != nil || r == nil || r.mr != mr || r.access&remoteRights == 0 {
		return
	}
	if mapped(mr.Bytes()) || !d.reachable(r.pd) {
		return
	}
	d.foundFreed(r, fmt.Sprintf("peers could use its key %#x", uint32(mr.RKey())))
}

func (d *Device) foundFreed(r *region, use string, places ...Place) {
	o := d.known.all[r.mr]
	if o == nil || r.freed {
		return
	}
	r.freed = true
	made := o.made
	made.What = "It was registered"
	d.c.Report(&Finding{MemoryFreed, fmt.Sprintf("Memory of %s was no longer mapped, and %s.", o.name(), use),
		append([]Place{at("It was seen"), made}, places...)})
}

// reachable reports whether a peer can use the keys of a protection domain.
func (d *Device) reachable(pd any) bool {
	for _, q := range d.known.qps {
		if q.pd != pd || q.init.Type == verbs.UD {
			continue
		}
		if s := q.qp.State(); s == verbs.StateRTR || s == verbs.StateRTS || s == verbs.StateSQD {
			return true
		}
	}
	return false
}
