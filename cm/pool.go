// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// slabSize is about how much memory a pool registers at once. Pages that no message has touched
// cost nothing.
const slabSize = 1 << 20

// Pool holds registered buffers of one protection domain, to send from and receive into. All its
// methods may be called from several goroutines.
type Pool struct {
	pd     *verbs.PD
	size   int
	slab   int // bytes registered at once
	access verbs.Access

	mu     sync.Mutex
	free   []*Buffer
	slabs  []*verbs.MR
	used   int // buffers in use
	closed bool
}

// NewPool creates a pool of buffers of size bytes, registered in pd with access and LocalWrite. It
// allocates memory as needed, in regions of about 1 MiB.
func NewPool(pd *verbs.PD, size int, access verbs.Access) *Pool {
	return &Pool{pd: pd, size: max(size, 1), slab: slabSize, access: access | verbs.LocalWrite}
}

// Get returns a buffer of n bytes: one of the pool's if n is at most their size, otherwise one of
// its own.
func (p *Pool) Get(n int) (*Buffer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, opErr("get_buffer", verbs.ErrClosed, "the pool is closed")
	}
	if n > p.size {
		mr, err := p.pd.AllocMR(n, p.access)
		if err != nil {
			return nil, err
		}
		p.used++
		return &Buffer{pool: p, mr: mr, n: n, own: true}, nil
	}
	if len(p.free) == 0 {
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.used++
	b.n, b.WC = n, verbs.WC{}
	return b, nil
}

// grow registers one more slab.
func (p *Pool) grow() error {
	stride := (p.size + 63) &^ 63 // no two buffers share a cache line
	count := max(1, p.slab/stride)
	mr, err := p.pd.AllocMR(count*stride, p.access)
	if err != nil {
		return err
	}
	p.slabs = append(p.slabs, mr)
	buffers := make([]Buffer, count)
	for i := range buffers {
		b := &buffers[count-1-i] // the first one is used first
		b.pool, b.mr, b.off = p, mr, (count-1-i)*stride
		p.free = append(p.free, b)
	}
	return nil
}

// Close frees the memory, at once or when the last buffer is released.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.clear()
}

// clear deregisters the memory of a closed pool that is not in use.
func (p *Pool) clear() error {
	if !p.closed || p.used > 0 {
		return nil
	}
	for _, mr := range p.slabs {
		if err := mr.Close(); err != nil {
			return err
		}
	}
	p.slabs, p.free = nil, nil
	return nil
}

// Buffer is registered memory of a [Pool].
type Buffer struct {
	WC verbs.WC // of the message that it holds, if it was received

	pool *Pool
	mr   *verbs.MR
	off  int
	n    int
	own  bool // the buffer has a region of its own
}

// Bytes returns the buffer's bytes: the requested number, or the message received.
func (b *Buffer) Bytes() []byte { return b.mr.Bytes()[b.off : b.off+b.n : b.off+b.n] }

// SGE returns the first n bytes for a work request.
func (b *Buffer) SGE(n int) verbs.SGE { return b.mr.SGE(b.off, n) }

// Remote returns the address and rkey by which a peer reaches the buffer, if the pool's access allows it.
func (b *Buffer) Remote() verbs.Remote { return b.mr.Remote().At(uint64(b.off)) }

// Release returns the buffer to its pool. It must not be used afterwards.
func (b *Buffer) Release() {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if b.own {
		b.mr.Close() // pools bind no windows
	} else {
		p.free = append(p.free, b)
	}
	p.clear()
}
