// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// pd is a protection domain.
type pd struct {
	numbered
	dev  *device
	c    uintptr // struct ibv_pd
	gone bool
}

func (d *device) AllocPD() (driver.PD, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	c, errno := d.lib.CallErrno(d.lib.AllocPD, d.ctx)
	if err := madeOf(c, errno); err != nil {
		return nil, err
	}
	p := &pd{dev: d, c: c}
	d.made(p)
	return p, nil
}

func (p *pd) Dealloc() error { return p.dev.end(p) }

func (p *pd) destroy() error {
	if p.gone {
		return nil
	}
	r, errno := p.dev.lib.CallErrno(p.dev.lib.DeallocPD, p.c)
	err := destroyed(r, errno)
	p.gone = err == nil
	return err
}

func (p *pd) abandon() { p.gone = true }

// mr is a memory region.
type mr struct {
	numbered
	dev  *device
	info driver.MRInfo // covered by the device's mu

	mu     sync.Mutex
	c      uintptr // struct ibv_mr; 0: it is closed
	addr   uint64  // the address that stands for the first byte
	lkey   verbs.Key
	rkey   verbs.Key
	pinned bool
	write  bool // the device may write to it
	buf    []byte
	pin    *runtime.Pinner
	mapped []byte // memory that is unmapped with the region
}

// accessOf converts access flags; the flags of FLUSH are left out.
func accessOf(a verbs.Access) ibverbs.AccessFlags {
	const same = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind |
		verbs.ZeroBased | verbs.OnDemand | verbs.HugePages
	c := ibverbs.AccessFlags(a & same)
	if a&verbs.RelaxedOrdering != 0 {
		c |= ibverbs.AccessRelaxedOrdering
	}
	return c
}

// checkAccess refuses accesses that the device does not have. FlushGlobal and FlushPersistent permit peers requests
// that they cannot make here.
func (d *device) checkAccess(op string, a verbs.Access) error {
	if a&verbs.OnDemand != 0 && d.attr.Caps&verbs.CapOnDemand == 0 {
		return fail(op, verbs.ErrNotSupported,
			"the device has no on-demand paging: leave out OnDemand, and the memory is pinned")
	}
	return nil
}

// first returns the address of a region's first byte. A region of no bytes has one all the same.
func first(buf []byte) uintptr {
	if cap(buf) == 0 {
		return uintptr(unsafe.Pointer(&nothing))
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
}

var nothing uint64

func (p *pd) RegMR(buf []byte, access verbs.Access) (driver.MR, error) {
	m := &mr{dev: p.dev, buf: buf, pin: new(runtime.Pinner)}
	if len(buf) > 0 {
		m.pin.Pin(unsafe.SliceData(buf))
	}
	if err := m.register(p, uint64(first(buf)), access, "reg_mr"); err != nil {
		m.pin.Unpin()
		return nil, err
	}
	return m, nil
}

// RegMROptions registers pinned memory: adapters know no other way.
func (p *pd) RegMROptions(buf []byte, access verbs.Access, opt driver.RegOptions) (driver.MR, error) {
	if opt.Weak || opt.Mode != driver.RegPinned {
		return nil, fail("reg_mr", verbs.ErrNotSupported, "an adapter pins the memory when it is registered")
	}
	m, err := p.RegMR(buf, access)
	if err == nil {
		m.(*mr).pinned = true
	}
	return m, err
}

func (m *mr) WaitPinned(context.Context) error {
	if !m.pinned {
		return verbs.ErrInvalid
	}
	return nil
}

// RegExternal registers memory that Go does not keep alive.
func (p *pd) RegExternal(buf []byte, iova uint64, access verbs.Access) (driver.MR, error) {
	m := &mr{dev: p.dev, buf: buf, pin: new(runtime.Pinner)}
	if err := m.register(p, iova, access, "reg_mr_iova"); err != nil {
		return nil, err
	}
	return m, nil
}

func (p *pd) AllocMR(size int, access verbs.Access) (driver.MR, error) {
	const huge = 2 << 20
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	var b []byte
	err := error(unix.ENOMEM)
	if access&verbs.HugePages != 0 {
		b, err = unix.Mmap(-1, 0, (size+huge-1)/huge*huge, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_HUGETLB)
	}
	if err != nil { // the system may make huge pages of it
		if b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags); err != nil {
			return nil, errorOf(err.(syscall.Errno))
		}
		if access&verbs.HugePages != 0 {
			unix.Madvise(b, unix.MADV_HUGEPAGE)
			access &^= verbs.HugePages
		}
	}
	return p.regMapped(b, size, access, "alloc_mr")
}

// RegShared maps and registers memory that processes share.
func (p *pd) RegShared(fd uintptr, offset int64, size int, access verbs.Access) (driver.MR, error) {
	prot := unix.PROT_READ
	if access&verbs.LocalWrite != 0 {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(int(fd), offset, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, errorOf(err.(syscall.Errno))
	}
	return p.regMapped(b, size, access, "reg_shared_mr")
}

// regMapped registers a mapping that goes with the region.
func (p *pd) regMapped(b []byte, size int, access verbs.Access, op string) (driver.MR, error) {
	m := &mr{dev: p.dev, buf: b[:size], mapped: b, pin: new(runtime.Pinner)}
	if err := m.register(p, uint64(first(b)), access, op); err != nil {
		unix.Munmap(b)
		return nil, err
	}
	return m, nil
}

// register has the device register the region's memory.
func (m *mr) register(p *pd, iova uint64, access verbs.Access, op string) error {
	d := m.dev
	if err := d.checkAccess(op, access); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if access&verbs.ZeroBased != 0 {
		iova = 0
	}
	addr := first(m.buf)
	var c uintptr
	var errno syscall.Errno
	switch {
	case d.lib.RegMRIova2 != 0:
		c, errno = d.lib.CallErrno(d.lib.RegMRIova2, p.c, addr, uintptr(len(m.buf)), uintptr(iova),
			uintptr(accessOf(access&^verbs.ZeroBased)))
	case iova == uint64(addr):
		c, errno = d.lib.CallErrno(d.lib.RegMR, p.c, addr, uintptr(len(m.buf)),
			uintptr(accessOf(access&^verbs.RelaxedOrdering)))
	default:
		return fail(op, verbs.ErrNotSupported,
			"this libibverbs, older than rdma-core 28, gives memory its own addresses only")
	}
	runtime.KeepAlive(m.buf)
	switch err := madeOf(c, errno); {
	case errno == syscall.ENOMEM:
		return outOfMemory(op, len(m.buf))
	case err == verbs.ErrInvalid && access&verbs.ZeroBased != 0 && addr%uintptr(os.Getpagesize()) != 0:
		return fail(op, err, "a zero-based region of this device begins at a page: use AllocMR")
	case err == verbs.ErrFault && access&verbs.LocalWrite != 0:
		return fail(op, err, "the memory may not be written to, and LocalWrite asks for it")
	case err != nil:
		return lacking(op, err, "such regions")
	}
	m.addr, m.write = iova, access&verbs.LocalWrite != 0
	m.use(c)
	m.info = driver.MRInfo{Key: m.rkey, PD: p.id, Addr: m.addr, Len: uint64(len(m.buf)), Access: access}
	d.made(m)
	return nil
}

func (m *mr) use(c uintptr) {
	info := ibverbs.Pointer[ibverbs.MR](c)
	m.c, m.lkey, m.rkey = c, verbs.Key(info.Lkey), verbs.Key(info.Rkey)
}

// outOfMemory tells the limit of pinned memory from a lack of it.
func outOfMemory(op string, size int) error {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil || r.Cur == unix.RLIM_INFINITY {
		return verbs.ErrNoMemory
	}
	return fail(op, verbs.ErrPinLimit, fmt.Sprintf("%d bytes are to be pinned, and RLIMIT_MEMLOCK lets the process pin %d in all: raise it by `ulimit -l unlimited`, "+
		"by LimitMEMLOCK=infinity in a systemd unit, by `--ulimit memlock=-1` for a container, or in /etc/security/limits.d for logins", size, r.Cur))
}

func (m *mr) Addr() uint64    { return m.addr }
func (m *mr) LKey() verbs.Key { return m.lkey }
func (m *mr) RKey() verbs.Key { return m.rkey }

func (m *mr) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buf
}

// reregInput is the result of ibv_rereg_mr that leaves the region as it was (IBV_REREG_MR_ERR_INPUT).
const reregInput = -1

// ReregMR changes a region (ibv_rereg_mr). It is in this domain afterwards, if flags say so.
func (p *pd) ReregMR(r driver.MR, flags verbs.ReregFlags, buf []byte, access verbs.Access) error {
	const op = "rereg_mr"
	m := r.(*mr)
	d := m.dev
	if flags&verbs.ReregTranslation != 0 && m.mapped != nil {
		return fail(op, verbs.ErrNotSupported, "memory that the device has allocated goes with its region")
	}
	if flags&verbs.ReregTranslation != 0 && flags&verbs.ReregAccess != 0 && access&verbs.ZeroBased != 0 {
		return fail(op, verbs.ErrNotSupported, "ibv_rereg_mr gives other memory its own addresses: leave out ZeroBased")
	}
	if d.lib.ReregMR == 0 {
		return lacking(op, verbs.ErrNotSupported, "ibv_rereg_mr")
	}
	if flags&verbs.ReregAccess != 0 {
		if err := d.checkAccess(op, access); err != nil {
			return err
		}
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c == 0 {
		return verbs.ErrClosed
	}
	info := m.info // which only this function changes
	var domain, addr, size uintptr
	if flags&verbs.ReregPD != 0 {
		domain, info.PD = p.c, p.id
	}
	pin := new(runtime.Pinner)
	if flags&verbs.ReregTranslation != 0 {
		addr, size = first(buf), uintptr(len(buf))
		if len(buf) > 0 {
			pin.Pin(unsafe.SliceData(buf))
		}
	}
	ret, errno := d.lib.CallErrno(d.lib.ReregMR, m.c, uintptr(flags), domain, addr, size, uintptr(accessOf(access)))
	if n := int32(ret); n != 0 {
		pin.Unpin()
		if errno == 0 && n == reregInput {
			errno = syscall.EINVAL
		}
		return lacking(op, resultOf(ret, errno), "ibv_rereg_mr")
	}
	if flags&verbs.ReregTranslation != 0 {
		m.pin.Unpin()
		m.pin, m.buf, m.addr = pin, buf, uint64(addr)
	}
	if flags&verbs.ReregAccess != 0 {
		m.write, info.Access = access&verbs.LocalWrite != 0, access
	}
	m.use(m.c)
	info.Key, info.Addr, info.Len = m.rkey, m.addr, uint64(len(m.buf))
	d.mu.Lock()
	m.info = info
	d.mu.Unlock()
	return nil
}

// Prefetch brings in pages (ibv_advise_mr).
func (m *mr) Prefetch(off, n int, write bool) error {
	const op, function = "advise_mr", "ibv_advise_mr"
	d := m.dev
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	f := ibverbs.Ext(d.ctx, ibverbs.BackAdviseMR)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.c == 0:
		return verbs.ErrClosed
	case write && !m.write:
		return verbs.ErrPermission
	case f == 0:
		return lacking(op, verbs.ErrNotSupported, function)
	}
	advice := ibverbs.AdviseMRAdvicePrefetch
	if write {
		advice = ibverbs.AdviseMRAdvicePrefetchWrite
	}
	sge := &ibverbs.SGE{Addr: m.addr + uint64(off), Length: uint32(n), Lkey: uint32(m.lkey)}
	r, errno := d.lib.CallErrno(f, uintptr(ibverbs.Pointer[ibverbs.MR](m.c).PD), uintptr(advice),
		uintptr(ibverbs.AdviseMRFlagFlush), uintptr(unsafe.Pointer(sge)), 1)
	return lacking(op, resultOf(r, errno), function)
}

func (m *mr) Dereg() error { return m.dev.end(m) }

func (m *mr) destroy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c == 0 {
		return nil
	}
	r, errno := m.dev.lib.CallErrno(m.dev.lib.DeregMR, m.c)
	if err := destroyed(r, errno); err != nil {
		return err
	}
	m.c = 0
	m.release()
	return nil
}

func (m *mr) abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c = 0
}

// free gives up the memory of a region that was abandoned.
func (m *mr) free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
}

// release gives up the memory, of which the device knows no more. It is called with the lock held.
func (m *mr) release() {
	m.buf = nil
	m.pin.Unpin()
	if m.mapped != nil {
		unix.Munmap(m.mapped)
		m.mapped = nil
	}
}

// mw is a memory window.
type mw struct {
	numbered
	dev  *device
	c    uintptr // struct ibv_mw
	typ  verbs.MWType
	info driver.MWInfo // as it was allocated

	mu   sync.Mutex
	rkey verbs.Key // type 2: the program's choice
	gone bool
}

func (p *pd) AllocMW(t verbs.MWType) (driver.MW, error) {
	d := p.dev
	if t == verbs.MWType1 && d.attr.Caps&verbs.CapMWType1 == 0 ||
		t == verbs.MWType2 && d.attr.Caps&verbs.CapMWType2B == 0 || d.ops.allocMW == 0 {
		return nil, lacking("alloc_mw", verbs.ErrNotSupported, fmt.Sprintf("memory windows of type %d", t))
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	c, errno := d.lib.CallErrno(d.ops.allocMW, p.c, uintptr(t))
	if err := madeOf(c, errno); err != nil {
		return nil, err
	}
	w := &mw{dev: d, c: c, typ: t, rkey: verbs.Key(ibverbs.Pointer[ibverbs.MW](c).Rkey)}
	w.info = driver.MWInfo{Key: w.rkey, PD: p.id, Type: t}
	d.made(w)
	return w, nil
}

func (w *mw) RKey() verbs.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.typ == verbs.MWType1 && !w.gone {
		w.rkey = verbs.Key(ibverbs.Pointer[ibverbs.MW](w.c).Rkey)
	}
	return w.rkey
}

func (w *mw) closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

func (w *mw) Dealloc() error { return w.dev.end(w) }

func (w *mw) destroy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil
	}
	r, errno := w.dev.lib.CallErrno(w.dev.ops.deallocMW, w.c)
	err := destroyed(r, errno)
	w.gone = err == nil
	return err
}

func (w *mw) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
}

// ah is an address handle.
type ah struct {
	numbered
	dev  *device
	info driver.AHInfo
	c    uintptr // struct ibv_ah
	gone atomic.Bool
}

// ahAttr is struct ibv_ah_attr, which is the part of a queue pair's attributes that it has, too.
func fillAH(c *ibverbs.AHAttr, a *verbs.AHAttr, port int) {
	*c = ibverbs.AHAttr{Dlid: a.DLID, SL: a.SL, SrcPathBits: a.SrcPathBits, PortNum: uint8(port)}
	if a.Port != 0 {
		c.PortNum = uint8(a.Port)
	}
	if a.Global() {
		c.IsGlobal = 1
		c.GRHDgid, c.GRHFlowLabel, c.GRHSgidIndex, c.GRHHopLimit, c.GRHTrafficClass = a.DGID, a.FlowLabel,
			uint8(a.SGIDIndex), a.HopLimit, a.TrafficClass
		if a.HopLimit == 0 {
			c.GRHHopLimit = defaultHops
		}
	}
}

// defaultHops is the time to live of packets for which the program has not chosen one.
const defaultHops = 64

func (p *pd) CreateAH(attr verbs.AHAttr) (driver.AH, error) {
	d := p.dev
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	c := new(ibverbs.AHAttr)
	fillAH(c, &attr, 1)
	h, errno := d.lib.CallErrno(d.lib.CreateAH, p.c, uintptr(unsafe.Pointer(c)))
	if err := madeOf(h, errno); err != nil {
		return nil, lacking("create_ah", err, "address handles")
	}
	a := &ah{dev: d, c: h, info: driver.AHInfo{PD: p.id, DGID: attr.DGID, DLID: attr.DLID, SL: attr.SL,
		Port: int(c.PortNum)}}
	d.made(a)
	return a, nil
}

func (a *ah) Destroy() error { return a.dev.end(a) }

func (a *ah) destroy() error {
	if a.gone.Swap(true) {
		return nil
	}
	r, errno := a.dev.lib.CallErrno(a.dev.lib.DestroyAH, a.c)
	err := destroyed(r, errno)
	a.gone.Store(err == nil)
	return err
}

func (a *ah) abandon() { a.gone.Store(true) }
