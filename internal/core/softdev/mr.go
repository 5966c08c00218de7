// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// mr is a memory region.
type mr struct {
	dev       *Device
	region    *memory.Region
	unmap     func()        // of a region that has ended
	pinned    *pinned       // nil: nothing is pinned
	info      driver.MRInfo // for observers
	listIndex int
}

func (p *pd) RegMR(buf []byte, access verbs.Access) (driver.MR, error) {
	if err := checkPersistence(buf, access); err != nil {
		return nil, err
	}
	return orNil(p.newMR(func(t *memory.Table) (*memory.Region, error) { return t.Register(p.num, buf, access) }))
}

func (p *pd) RegExternal(buf []byte, iova uint64, access verbs.Access) (driver.MR, error) {
	if err := checkPersistence(buf, access); err != nil {
		return nil, err
	}
	return orNil(p.newMR(func(t *memory.Table) (*memory.Region,
		error) {
		return t.RegisterExternal(p.num, buf, iova, access)
	}))
}

func (p *pd) RegShared(fd uintptr, offset int64, size int, access verbs.Access) (driver.MR, error) {
	buf, unmap, err := memory.MapShared(fd, offset, size, access&verbs.LocalWrite != 0)
	if err != nil {
		return nil, err
	}
	if err := checkPersistence(buf, access); err != nil {
		unmap()
		return nil, err
	}
	m, err := p.newMR(func(t *memory.Table) (*memory.Region,
		error) {
		return t.RegisterMapped(p.num, buf, unmap, access), nil
	})
	if err != nil {
		unmap()
	}
	return orNil(m, err)
}

func (p *pd) AllocMR(size int, access verbs.Access) (driver.MR, error) {
	if access&verbs.FlushPersistent != 0 {
		return nil, &verbs.OpError{Op: "alloc_mr", Err: verbs.ErrNotSupported,
			Detail: "FlushPersistent: the memory of the device is in no file"}
	}
	return orNil(p.newMR(func(t *memory.Table) (*memory.Region, error) { return t.Allocate(p.num, size, access) }))
}

// orNil returns a nil interface for no region.
func orNil(m *mr, err error) (driver.MR, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// checkPersistence returns why a region cannot allow these accesses.
func checkPersistence(buf []byte, access verbs.Access) error {
	if access&verbs.FlushPersistent == 0 {
		return nil
	}
	return memory.Persistable(buf)
}

func (p *pd) newMR(make func(*memory.Table) (*memory.Region, error)) (*mr, error) {
	p.dev.Lock()
	defer p.dev.Unlock()
	if p.dev.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := p.dev.refuses("reg_mr", nil); err != nil {
		return nil, err
	}
	if v := p.dev.Lane.pace.virtual; v != nil {
		if err := v.RefuseRegion(); err != nil {
			return nil, err
		}
	}
	if err := p.dev.Counts.regions.Add(); err != nil {
		return nil, err
	}
	r, err := make(p.dev.memory)
	if err != nil {
		p.dev.Counts.regions.Remove()
		return nil, err
	}
	m := &mr{dev: p.dev, region: r}
	m.info = m.describe(p.num)
	addObject(p.dev, &p.dev.objects.mrs, m)
	return m, nil
}

// Region returns the engine's part.
func (m *mr) Region() *memory.Region { return m.region }

func (m *mr) Addr() uint64    { return m.region.Addr() }
func (m *mr) LKey() verbs.Key { return m.region.Key() }
func (m *mr) RKey() verbs.Key { return m.region.Key() }
func (m *mr) Bytes() []byte   { return m.region.Bytes() }

// ReregMR changes a region. It is in this domain afterwards, if flags say so.
func (p *pd) ReregMR(r driver.MR, flags verbs.ReregFlags, buf []byte, access verbs.Access) error {
	m := r.(*mr)
	m.dev.Lane.Mu.Lock()
	mem, allows := m.region.Bytes(), m.region.Access()
	m.dev.Lane.Mu.Unlock()
	if flags&verbs.ReregTranslation != 0 {
		mem = buf
	}
	if flags&verbs.ReregAccess != 0 {
		allows = access
	}
	if flags&(verbs.ReregTranslation|verbs.ReregAccess) != 0 {
		if err := checkPersistence(mem, allows); err != nil {
			return err
		}
	}
	change := func() error { return m.reregister(flags, p, buf, access) }
	move := change
	if flags&verbs.ReregTranslation != 0 {
		move = func() error { return m.pinned.move(buf, change) }
	}
	if err := move(); err != nil {
		return err
	}
	return m.dev.WaitForWorkers("rereg_mr", "the region has changed for it too")
}

func (m *mr) reregister(flags verbs.ReregFlags, to *pd, buf []byte, access verbs.Access) error {
	m.dev.Lock()
	defer m.dev.Unlock()
	if m.dev.Closed.Load() {
		return verbs.ErrClosed
	}
	if err := m.dev.refuses("rereg_mr", nil); err != nil {
		return err
	}
	num := memory.PD(m.info.PD)
	if flags&verbs.ReregPD != 0 {
		num = to.num
	}
	if err := m.dev.memory.Reregister(m.region, flags, num, buf, access); err != nil {
		return err
	}
	m.dev.view.Lock()
	defer m.dev.view.Unlock()
	m.info = m.describe(num)
	return nil
}

// Dereg ends the region. If it returns an error after that it can be called again.
func (m *mr) Dereg() error {
	if err := m.detach(); err != nil {
		return err
	}
	if err := m.dev.WaitForWorkers("dereg_mr", "close the region again"); err != nil {
		return err
	}
	m.pinned.unpin()
	m.unmap() // others can have the device meanwhile
	return nil
}

func (m *mr) detach() error {
	m.dev.Lock()
	defer m.dev.Unlock()
	if m.unmap != nil {
		return nil
	}
	unmap, err := m.dev.memory.Detach(m.region)
	if err == nil {
		m.unmap = unmap
		m.dev.Counts.regions.Remove()
		removeObject(m.dev, &m.dev.objects.mrs, m)
		m.dev.watch.notify() // programs that wait for the region see that it has ended
	}
	return err
}

// workersTimeout bounds the wait for peers that are at work in a region that ends. Each has a copy of a
// piece to finish, unless it was stopped.
const workersTimeout = 5 * time.Second

// WaitForWorkers waits until peers that work in this process's memory by themselves have finished the copies that they
// began before. The lock is not held. then is the advice of the error if one of them was stopped.
func (d *Device) WaitForWorkers(op, then string) error {
	d.Lane.Mu.Lock()
	workers := d.fabric.Workers()
	d.Lane.Mu.Unlock()
	for end := time.Now().Add(workersTimeout); len(workers) > 0; time.Sleep(50 * time.Microsecond) {
		d.Lane.Mu.Lock()
		for w, n := range workers {
			if w.Work() != n {
				delete(workers, w)
			}
		}
		d.Lane.Mu.Unlock()
		if time.Now().After(end) {
			return &verbs.OpError{Op: op, Err: verbs.ErrBusy,
				Detail: "a peer's process has stopped in the middle of a copy: when it goes on, or has ended, " + then}
		}
	}
	return nil
}

func (m *mr) Do(f func([]byte)) {
	m.dev.Lock()
	defer m.dev.Unlock()
	f(m.region.Bytes())
}

const (
	// watchPolls is how many polls of the device share a look at memory that peers write to through
	// it, and watchLooks how many looks share a poll where they write by themselves.
	watchPolls = 16
	watchLooks = 256
	// napFirst and napLast bound the sleep between looks at such memory, which grows.
	napFirst = 10 * time.Microsecond
	napLast  = time.Millisecond
)

// WaitFor looks, polls the device for a while, and then sleeps between remote accesses. Where peers
// write by themselves, which nobody notices, it sleeps for a while.
func (m *mr) WaitFor(ctx context.Context, cond func([]byte) bool) error {
	d := m.dev
	d.Lock()
	defer d.Unlock()
	alone := d.Attr.Caps&verbs.CapWatch == 0 // peers write by themselves
	polls, nap := watchPolls, napFirst
	if alone {
		polls = 1
	}
	var spinUntil time.Time
	for {
		if d.Closed.Load() || m.region.Bytes() == nil {
			return verbs.ErrClosed
		}
		if cond(m.region.Bytes()) {
			memory.Order() // data that was written before is read after
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for n := watchLooks; alone && n > 0; n-- {
			if cond(m.region.Bytes()) {
				memory.Order()
				return nil
			}
		}
		now := time.Now()
		if spinUntil.IsZero() {
			spinUntil = now.Add(verbs.DefaultSpin)
		}
		if now.Before(spinUntil) {
			for range polls {
				if d.poll() > 0 {
					d.Lane.spinner.found()
					spinUntil = now.Add(verbs.DefaultSpin)
					break
				}
				if d.Lane.parked() {
					break
				}
			}
			d.Unlock()
			d.Lane.pace.pause()
			d.Lock()
			continue
		}
		d.memory.Watch(m.region, 1)
		changed := d.watch.channel()
		for _, l := range d.Lanes {
			l.programSleeps()
		}
		d.Unlock()
		var napped <-chan time.Time // nil: never
		if alone {
			napped = time.After(nap)
			nap = min(2*nap, napLast)
		}
		woken := true
		select {
		case <-changed:
		case <-napped:
			woken = false
		case <-ctx.Done():
		}
		d.Lock()
		d.memory.Watch(m.region, -1)
		if woken {
			spinUntil = time.Time{}
		}
	}
}

// poll makes a pass on each lane, for a program that waits in memory. The device's lock is held.
func (d *Device) poll() (moved int) {
	for _, l := range d.Lanes {
		l.polled(1)
		moved += l.poll(nil)
	}
	return moved
}

// watch wakes goroutines that wait for remote accesses.
type watch struct {
	mu lockorder.Mutex[lockorder.Leaf]
	ch chan struct{} // nil: nobody waits
}

func (w *watch) channel() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

func (w *watch) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// TellWatchers wakes goroutines that wait for memory to change if a peer has written to some of it.
func (d *Device) TellWatchers() {
	if d.memory.TakeChanged() {
		d.watch.notify()
	}
}

// mw is a memory window.
type mw struct {
	dev       *Device
	window    *memory.Window
	info      driver.MWInfo // as observers see it
	listIndex int
}

func (p *pd) AllocMW(t verbs.MWType) (driver.MW, error) {
	p.dev.Lock()
	defer p.dev.Unlock()
	if p.dev.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := p.dev.refuses("alloc_mw", nil); err != nil {
		return nil, err
	}
	if err := p.dev.Counts.windows.Add(); err != nil {
		return nil, err
	}
	m := &mw{dev: p.dev, window: p.dev.memory.AllocWindow(p.num, t)}
	m.window.Owner, m.info = m, m.window.Description()
	addObject(p.dev, &p.dev.objects.mws, m)
	return m, nil
}

// Window returns the engine's part.
func (m *mw) Window() *memory.Window { return m.window }

func (m *mw) RKey() verbs.Key { return m.window.Key() }

func (m *mw) Dealloc() error {
	m.dev.Lock()
	defer m.dev.Unlock()
	m.dev.memory.FreeWindow(m.window)
	removeObject(m.dev, &m.dev.objects.mws, m)
	m.dev.Counts.windows.Remove()
	return nil
}
