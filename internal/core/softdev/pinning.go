// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"runtime"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/pin"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// pinned is the memory of a region that is pinned, in the way that the program chose. A device in software does not
// need that: the system brings back pages that the device touches. But it touches it under its lock, where all others
// wait for the disk.
//
// Pinning and unpinning take long, so the device's lock is not held.
type pinned struct {
	opt   driver.RegOptions
	mu    sync.Mutex
	pages *pin.Pages // nil: unpinned
}

// RegMROptions registers memory that is pinned, or not kept alive.
func (p *pd) RegMROptions(buf []byte, access verbs.Access, opt driver.RegOptions) (driver.MR, error) {
	if err := checkPersistence(buf, access); err != nil {
		return nil, err
	}
	if opt.Weak {
		return orNil(p.newMR(func(t *memory.Table) (*memory.Region,
			error) {
			return t.RegisterWeak(p.num, buf, access)
		}))
	}
	pages, err := pinPages(buf, opt)
	if err != nil {
		return nil, err
	}
	m, err := p.newMR(func(t *memory.Table) (*memory.Region, error) { return t.Register(p.num, buf, access) })
	if err != nil {
		pages.Unpin()
		return nil, err
	}
	m.pinned = &pinned{opt: opt, pages: pages}
	// For a region that is never closed, of a device that is.
	runtime.AddCleanup(m.region, func(p *pinned) { go p.unpin() }, m.pinned)
	return m, nil
}

// pinPages pins memory as options say.
func pinPages(buf []byte, opt driver.RegOptions) (*pin.Pages, error) {
	switch opt.Mode {
	case driver.RegPinned:
		return pin.Now(buf)
	case driver.RegPipelined:
		return pin.InBackground(buf, opt.Chunk)
	case driver.RegDeferred:
		return pin.OnUse(buf)
	}
	return nil, verbs.ErrNotSupported
}

// move pins buf, and unpins the memory before it if change succeeds. If p is nil it only calls change.
func (p *pinned) move(buf []byte, change func() error) error {
	if p == nil {
		return change()
	}
	next, err := pinPages(buf, p.opt)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		next.Unpin()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages.Unpin()
	p.pages = next
	return nil
}

// unpin ends the pinning. p may be nil, and a second call does nothing.
func (p *pinned) unpin() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages != nil {
		p.pages.Unpin()
		p.pages = nil
	}
}

// WaitPinned waits until the memory of a region is pinned.
func (m *mr) WaitPinned(ctx context.Context) error {
	if m.pinned == nil {
		return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrInvalid, Detail: "the region is not pinned"}
	}
	m.pinned.mu.Lock()
	pages := m.pinned.pages
	m.pinned.mu.Unlock()
	if pages == nil {
		return verbs.ErrClosed
	}
	return pages.Wait(ctx)
}

// Prefetch brings in pages of a region.
func (m *mr) Prefetch(off, n int, write bool) error {
	m.dev.Lane.Mu.Lock()
	mem, access := m.region.Bytes(), m.region.Access()
	m.dev.Lane.Mu.Unlock()
	if off+n > len(mem) { // it was closed meanwhile
		return verbs.ErrClosed
	}
	if write && access&verbs.LocalWrite == 0 {
		return &verbs.OpError{Op: "advise_mr", Err: verbs.ErrPermission, Detail: "the region has no LocalWrite"}
	}
	return pin.Prefetch(mem[off:off+n], write)
}
