// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math/bits"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// bounces are memory that the device uses in the place of a program's, by protection domain.
type bounces struct {
	domains map[*verbs.PD]*domainMemory
	total   int
}

// domainMemory is such memory of a protection domain.
type domainMemory struct {
	regions []driver.MR
	free    map[int][]*chunk // by size, a power of two
	total   int
}

// chunk is memory for an entry of a work request.
type chunk struct {
	mr   driver.MR
	in   *domainMemory
	off  int
	size int
	used int // work requests that use it
}

const (
	// maxBounce is how much memory there is of this kind; entries beyond it use the program's, and are not checked.
	maxBounce = 256 << 20
	// slab is the least size of a region.
	slab = 256 << 10
)

// take returns memory for n bytes; nil: there is no more.
func (b *bounces) take(pd *verbs.PD, n int) *chunk {
	size := 1 << max(6, bits.Len(uint(n-1)))
	m := b.domains[pd]
	if m == nil {
		m = &domainMemory{free: map[int][]*chunk{}}
		if b.domains == nil {
			b.domains = map[*verbs.PD]*domainMemory{}
		}
		b.domains[pd] = m
	}
	if len(m.free[size]) == 0 {
		whole := max(size, slab)
		if b.total+whole > maxBounce {
			return nil
		}
		mr, err := driver.PDOf(pd).AllocMR(whole, verbs.LocalWrite)
		if err != nil {
			return nil
		}
		b.total += whole
		m.total += whole
		m.regions = append(m.regions, mr)
		chunks := make([]chunk, whole/size)
		for i := range chunks {
			chunks[i] = chunk{mr: mr, in: m, off: i * size, size: size}
			m.free[size] = append(m.free[size], &chunks[i])
		}
	}
	list := m.free[size]
	c := list[len(list)-1]
	m.free[size] = list[:len(list)-1]
	c.used = 1
	return c
}

// release takes the memory of a work request back that has ended.
func (d *Device) release(r *request) {
	d.bounce.release(r)
	if r.direct {
		d.c.copied.end(r)
	}
}

// release takes the memory of a work request back.
func (b *bounces) release(r *request) {
	for i := range r.pieces {
		p := &r.pieces[i]
		if c := p.from; c != nil {
			c.release()
			p.from, p.bounce = nil, nil
		}
	}
	for _, c := range r.lent {
		c.release()
	}
	r.lent = nil
}

func (c *chunk) release() {
	if c.used--; c.used == 0 {
		c.in.free[c.size] = append(c.in.free[c.size], c)
	}
}

// freeBounces gives up the memory of a protection domain that is about to be freed, unless something is left in the
// domain: then the device refuses to free it.
func (d *Device) freeBounces(pd *verbs.PD) {
	for _, o := range d.known.all {
		if o.pd == any(pd) && o.gone == nil {
			return
		}
	}
	d.bounce.free(pd)
}

// free gives up the memory of a protection domain.
func (b *bounces) free(pd *verbs.PD) {
	m := b.domains[pd]
	if m == nil {
		return
	}
	for _, mr := range m.regions {
		mr.Dereg() // it is in no use, and if it is, it goes with the device
	}
	b.total -= m.total
	delete(b.domains, pd)
}
