// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// fake is a device that has regions only, of which it permits a number of bytes.
type fake struct {
	driver.Device
	strong bool // it has no weak regions

	mu    sync.Mutex
	keys  verbs.Key
	open  map[verbs.Key]*fakeMR
	bytes int
	limit int // 0: none
	regs  int
}

type fakePD struct {
	driver.UnsupportedPD
	dev *fake
}

type fakeMR struct {
	driver.UnsupportedMR
	dev  *fake
	addr uint64
	n    int
	key  verbs.Key
	mem  []byte // of a weak region nil
}

func (f *fake) AllocPD() (driver.PD, error)             { return &fakePD{dev: f}, nil }
func (f *fake) QueryDevice() verbs.DeviceAttr           { return verbs.DeviceAttr{Ports: 1} }
func (f *fake) SetEventSink(func(verbs.EventType, int)) {}
func (f *fake) Close() error                            { return nil }
func (p *fakePD) Dealloc() error                        { return nil }
func (p *fakePD) CreateQP(*verbs.QPInit, func(verbs.EventType)) (driver.QP, error) {
	return nil, verbs.ErrNotSupported
}

func (p *fakePD) RegMR(buf []byte, _ verbs.Access) (driver.MR, error) { return p.reg(buf, buf) }

func (p *fakePD) RegMROptions(buf []byte, _ verbs.Access, opt driver.RegOptions) (driver.MR, error) {
	if !opt.Weak {
		return p.reg(buf, buf)
	}
	if p.dev.strong {
		return nil, verbs.ErrNotSupported
	}
	return p.reg(buf, nil)
}

func (p *fakePD) reg(buf, keep []byte) (driver.MR, error) {
	f := p.dev
	f.mu.Lock()
	defer f.mu.Unlock()
	f.regs++
	if f.limit > 0 && f.bytes+len(buf) > f.limit {
		return nil, verbs.ErrPinLimit
	}
	f.bytes += len(buf)
	f.keys++
	m := &fakeMR{dev: f, addr: uint64(uintptr(unsafe.Pointer(&buf[0]))), n: len(buf), key: f.keys, mem: keep}
	f.open[m.key] = m
	return m, nil
}

func (m *fakeMR) Addr() uint64    { return m.addr }
func (m *fakeMR) LKey() verbs.Key { return m.key }
func (m *fakeMR) RKey() verbs.Key { return m.key }
func (m *fakeMR) Bytes() []byte   { return m.mem }

func (m *fakeMR) Dereg() error {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if m.dev.open[m.key] != m {
		panic("a region is closed twice")
	}
	delete(m.dev.open, m.key)
	m.dev.bytes -= m.n
	return nil
}

// count returns the number of open regions, and their bytes.
func (f *fake) count() (regions, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open), f.bytes
}

// has reports whether a region that is open has all of an SGE.
func (f *fake) has(s verbs.SGE) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.open[s.LKey]
	return m != nil && m.addr <= s.Addr && s.Addr+uint64(s.Length) <= m.addr+uint64(m.n)
}

// newFake makes a cache on a fake device.
func newFake(t testing.TB, opt Options) (*fake, *Cache) {
	t.Helper()
	f := &fake{open: make(map[verbs.Key]*fakeMR)}
	pd, err := driver.NewDevice(f).AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(pd, verbs.LocalWrite, &opt)
	if err != nil {
		t.Fatal(err)
	}
	return f, c
}
