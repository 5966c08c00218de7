// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"

	"github.com/ramjet-rdma/ramjet/internal/core/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// piece is the memory of a scatter/gather entry.
type piece struct {
	region *region
	addr   uint64
	mem    []byte // the program's
	sum    uint64 // of mem as it was posted
	bounce []byte // the device's in its place; nil: it uses mem
	from   *chunk // of bounce
}

var seed = maphash.MakeSeed()

// sum returns a digest of memory; false: it is not mapped.
func sum(b []byte) (v uint64, ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	v = maphash.Bytes(seed, b)
	return v, true
}

// find returns the memory of a scatter/gather entry, if the region has it.
func (d *Device) find(sge *verbs.SGE) (piece, bool) {
	r := d.known.regions[sge.LKey]
	if r == nil {
		return piece{}, false
	}
	off := sge.Addr - r.base
	if sge.Addr < r.base || off > uint64(len(r.mem)) || uint64(sge.Length) > uint64(len(r.mem))-off {
		return piece{}, false
	}
	p := piece{region: r, addr: sge.Addr, mem: r.mem[off : off+uint64(sge.Length)]}
	var ok bool
	p.sum, ok = sum(p.mem)
	return p, ok
}

// pieces finds the memory of a work request. With write the device writes to it: it gets other memory, in list, which is
// changed. Entries that name no memory stay, and fail at the device.
func (d *Device) pieces(r *request, list []verbs.SGE, pd *verbs.PD, write bool) {
	for i := range list {
		p, ok := d.find(&list[i])
		if !ok {
			continue
		}
		if write && len(p.mem) > 0 && pd != nil && p.region.pd == any(pd) {
			if c := d.bounce.take(pd, len(p.mem)); c != nil {
				p.from, p.bounce = c, c.mr.Bytes()[c.off:c.off+len(p.mem)]
				list[i].Addr, list[i].LKey = c.mr.Addr()+uint64(c.off), c.mr.LKey()
			}
		}
		r.pieces = append(r.pieces, p)
	}
}

// verify reports memory that has changed since it was posted.
func (d *Device) verify(r *request) {
	rule := SendModified
	switch {
	case r.recvs != nil:
		rule = ReceiveTouched
	case r.op == verbs.OpRead || r.op == verbs.OpCompareSwap || r.op == verbs.OpFetchAdd:
		rule = ReadTouched
	}
	for i := range r.pieces {
		p := &r.pieces[i]
		if rule != SendModified && p.bounce == nil {
			continue // the device has written to it
		}
		if now, ok := sum(p.mem); !ok || now == p.sum {
			continue
		}
		d.c.Report(&Finding{rule, fmt.Sprintf("%s of %s: %d bytes at %#x of %s are not what they were.", r.name(), d.queue(r),
			len(p.mem), p.addr, d.nameOf(p.region.mr)), []Place{r.posted, at("Its completion was polled")}})
	}
}

// deliver copies what the device has received to where the program wants it.
func (d *Device) deliver(r *request, status verbs.Status, received uint32) {
	left := int(received)
	if r.recvs == nil {
		left = 1 << 30 // a READ fills all
	}
	for i := range r.pieces {
		p := &r.pieces[i]
		n := min(len(p.mem), left)
		left -= n
		if p.bounce != nil && status == verbs.StatusSuccess {
			memory.Copy(p.mem[:n], p.bounce[:n])
		}
	}
}
