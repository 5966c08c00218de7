// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// piece is the memory of a scatter/gather entry.
type piece struct {
	region *region
	key    verbs.Key
	addr   uint64
	mem    []byte   // the program's
	seal   *seal    // of mem as it was posted
	parts  []uint64 // of a receive, in place of it: digests of one part after the other
	copies uint32   // how many the checker had made as parts were taken
	bounce []byte   // the device's in its place; nil: it uses mem
	from   *chunk   // of bounce
	guard  int      // of its whole pages; 0: they are not protected
}

// find returns the memory of a scatter/gather entry, if the region has it.
func (d *Device) find(sge *verbs.SGE) (piece, bool) {
	r := d.known.regions[sge.LKey]
	if r == nil {
		return piece{}, false
	}
	mem, off := r.mr.Bytes(), sge.Addr-r.base
	if sge.Addr < r.base || off > uint64(len(mem)) || uint64(sge.Length) > uint64(len(mem))-off {
		return piece{}, false
	}
	return piece{region: r, key: sge.LKey, addr: sge.Addr, mem: mem[off : off+uint64(sge.Length)]}, true
}

// pieces finds the memory of a work request. With write the device writes to it: it gets other memory, in list, which
// is changed. Entries that name no memory stay, and fail at the device.
func (d *Device) pieces(r *request, list []verbs.SGE, pd *verbs.PD, write bool) {
	for i := range list {
		p, ok := d.find(&list[i])
		if !ok {
			continue
		}
		if write && len(p.mem) > 0 && pd != nil && p.region.pd == any(pd) && p.region.access&verbs.LocalWrite != 0 {
			if c := d.bounce.take(pd, len(p.mem)); c != nil {
				p.from, p.bounce = c, c.mr.Bytes()[c.off:c.off+len(p.mem)]
				list[i].Addr, list[i].LKey = c.mr.Addr()+uint64(c.off), c.mr.LKey()
			} else {
				r.direct = true
				d.c.copied.begin(r, p.mem)
			}
		}
		r.pieces = append(r.pieces, p)
	}
}

// seal takes the digests of the memory of a work request that is about to be posted, unless it has them.
func (d *Device) seal(r *request) {
	copies := d.c.copied.now()
	for i := range r.pieces {
		p := &r.pieces[i]
		if r.recvs == nil {
			if p.seal == nil {
				p.seal = newSeal(p.mem, copies)
			}
			continue
		}
		p.copies = copies
		first := len(r.sums)
		for start, end := 0, 0; start < len(p.mem); start = end {
			end = partEnd(start, len(p.mem))
			r.sums = append(r.sums, sum(p.mem[start:end]))
		}
		p.parts = r.sums[first:]
	}
	d.protect(r)
}

// partEnd returns where a part of a receive ends that begins at start: parts are an eighth of the bytes before them.
func partEnd(start, length int) int { return min(start+max(64, start/8), length) }

// changed reports whether what so many bytes of a message have overwritten of a receive has changed since it was
// posted. The rest nobody but the program has touched: some declare more than their buffer has. So the last of
// several parts counts only if the message fills it.
func (p *piece) changed(received int) bool {
	start := 0
	for _, was := range p.parts {
		end := partEnd(start, len(p.mem))
		if start >= received || start > 0 && end == len(p.mem) && end > received {
			return false
		}
		if now := sum(p.mem[start:end]); now != was && now != 0 && was != 0 {
			return true
		}
		start = end
	}
	return false
}

// verify reports memory that has changed since it was posted.
func (d *Device) verify(r *request, received int, last *lastSum) {
	if r.answered || r.touched {
		return // it was looked at then, or is reported
	}
	if p := d.changed(r, received, last); p != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reportChanged(r, p, at("Its completion was polled"))
	}
}

// answered looks at the sends of a queue pair as a message of the peer has come, which may tell that they have arrived.
// The program may use their memory again from then on, if they are not signaled, or datagrams, which are sent only
// once.
func (d *Device) answered(q *queuePair) {
	var last lastSum
	for _, r := range q.sends {
		if r.signaled && q.init.Type != verbs.UD || r.answered || r.reads() {
			continue
		}
		r.answered = true
		if p := d.changed(r, math.MaxInt, &last); p != nil {
			d.reportChanged(r, p, at("The next message of its peer was polled"))
		}
	}
}

// changed returns memory of a work request that the program has changed, nil if it has not.
func (d *Device) changed(r *request, received int, last *lastSum) *piece {
	for i := range r.pieces {
		p := &r.pieces[i]
		if (r.recvs != nil || r.reads()) && p.bounce == nil {
			continue // the device has written to it
		}
		var changed bool
		copies := p.copies
		if p.seal != nil {
			changed, copies = p.seal.differs(last.of(p.mem, d.c.copied.now())), p.seal.copies
		} else {
			changed = p.changed(received)
		}
		received -= min(received, len(p.mem))
		// A WRITE that ends meanwhile counts as copied then, so whether it goes on is asked first.
		if changed && !d.c.history.writing(d, p.mem) && !d.c.copied.after(p.mem, copies) {
			if p.seal != nil {
				p.seal.broken.Store(true)
			}
			return p
		}
	}
	return nil
}

func (d *Device) reportChanged(r *request, p *piece, seen Place) {
	rule := SendModified
	switch {
	case r.recvs != nil:
		rule = ReceiveTouched
	case r.reads():
		rule = ReadTouched
	}
	d.report(r.qp, &Finding{rule, fmt.Sprintf("%s of %s: %d bytes at %#x of %s are not what they were.", r.name(),
		d.queue(r), len(p.mem), p.addr, d.nameOf(p.region.mr)), []Place{r.posted, seen}})
}

// deliver copies the first bytes that the device has received to where the program wants them.
func (d *Device) deliver(r *request, received int) {
	for i := range r.pieces {
		p := &r.pieces[i]
		n := min(len(p.mem), received)
		received -= n
		if p.bounce == nil || n == 0 || p.region.gone.Load() {
			continue
		}
		if !memory.Copy(p.mem[:n], p.bounce[:n]) {
			d.mu.Lock()
			d.unmapped(r)
			d.mu.Unlock()
		}
		d.c.copied.add(p.mem[:n])
	}
}
