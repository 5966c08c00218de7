// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// device is an open device.
type device struct {
	driver.Unsupported
	driver.UnsupportedConnector
	lib     *ibverbs.Library
	ctx     uintptr // struct ibv_context
	name    string  // of the kernel: mlx5_0
	attr    verbs.DeviceAttr
	ops     ops
	channel channel // completion events
	async   channel // asynchronous events
	cmMu    sync.Mutex
	cm      *manager // of connections; nil: there were none

	// life is held by calls that need the context. Close waits for them, and then no new one begins.
	life    sync.RWMutex
	closed  bool
	ended   chan struct{} // closed when Close is through
	removal sync.Once
	removed atomic.Bool // the kernel has taken the device away

	// mu covers the tables by which events find objects. It is held for no call.
	mu       sync.Mutex
	sink     func(verbs.EventType, int)
	objects  map[object]uint64 // with the order in which they were made
	order    uint64
	observed observed
	cqs      map[uintptr]*cq
	qps      map[uintptr]*qp
	srqs     map[uintptr]*srq
	numbers  map[verbs.QPN]*qp
}

// object is something that Close destroys.
type object interface {
	destroy() error
	// abandon keeps further calls from the objects that the device refuses to destroy.
	abandon()
}

// ops are the functions of the context's table.
type ops struct {
	pollCQ, reqNotify, postSend, postRecv, postSRQRecv uintptr
	allocMW, bindMW, deallocMW                         uintptr
}

func newDevice(lib *ibverbs.Library, ctx uintptr, name string) (*device, error) {
	d := &device{lib: lib, ctx: ctx, name: name, ended: make(chan struct{}), objects: map[object]uint64{},
		cqs: map[uintptr]*cq{}, qps: map[uintptr]*qp{}, srqs: map[uintptr]*srq{}, numbers: map[verbs.QPN]*qp{}}
	d.ops = ops{
		pollCQ: ibverbs.Op(ctx, ibverbs.CtxPollCQ), reqNotify: ibverbs.Op(ctx, ibverbs.CtxReqNotifyCQ),
		postSend: ibverbs.Op(ctx, ibverbs.CtxPostSend), postRecv: ibverbs.Op(ctx, ibverbs.CtxPostRecv),
		postSRQRecv: ibverbs.Op(ctx, ibverbs.CtxPostSRQRecv),
		allocMW:     ibverbs.Op(ctx, ibverbs.CtxAllocMW), bindMW: ibverbs.Op(ctx, ibverbs.CtxBindMW),
		deallocMW: ibverbs.Op(ctx, ibverbs.CtxDeallocMW),
	}
	if err := d.queryDevice(); err != nil {
		return nil, err
	}
	if err := d.startEvents(); err != nil {
		return nil, err
	}
	return d, nil
}

// queryDevice fills in the attributes.
func (d *device) queryDevice() error {
	a := new(ibverbs.DeviceAttrEx)
	err := error(verbs.ErrNotSupported)
	if f := ibverbs.Ext(d.ctx, ibverbs.BackQueryDeviceEx); f != 0 {
		r, errno := d.lib.CallErrno(f, d.ctx, 0, uintptr(unsafe.Pointer(a)), sizeof(a))
		err = resultOf(r, errno)
	}
	if err != nil { // the older call fills the first part
		r, errno := d.lib.CallErrno(d.lib.QueryDevice, d.ctx, uintptr(unsafe.Pointer(a)))
		if err = resultOf(r, errno); err != nil {
			return fmt.Errorf("query_device: %w", err)
		}
	}
	transport := verbs.TransportIB
	if *ibverbs.Pointer[ibverbs.Transport](*ibverbs.Pointer[uintptr](d.ctx) +
		ibverbs.DeviceTransport) == ibverbs.TransportIwarp {
		transport = verbs.TransportIWARP
	}
	caps := a.OrigAttrDeviceCapFlags
	d.attr = verbs.DeviceAttr{
		Name: Prefix + d.name, Kind: Kind, Transport: transport, Firmware: text(a.OrigAttrFwVer[:]),
		NodeGUID: be64(a.OrigAttrNodeGUID), SysImageGUID: be64(a.OrigAttrSysImageGUID),
		VendorID: a.OrigAttrVendorID, VendorPartID: a.OrigAttrVendorPartID, HWVersion: a.OrigAttrHwVer,
		Ports:     int(a.OrigAttrPhysPortCnt),
		MaxMRSize: a.OrigAttrMaxMRSize, PageSizes: a.OrigAttrPageSizeCap, MaxQP: count(a.OrigAttrMaxQP),
		MaxQPWR: count(a.OrigAttrMaxQPWR),
		MaxSGE:  count(a.OrigAttrMaxSGE), MaxSGERead: count(a.OrigAttrMaxSGERD), SinkAccess: verbs.LocalWrite,
		MaxCQ: count(a.OrigAttrMaxCQ), MaxCQE: count(a.OrigAttrMaxCQE),
		MaxMR: count(a.OrigAttrMaxMR), MaxMW: count(a.OrigAttrMaxMW), MaxPD: count(a.OrigAttrMaxPD),
		MaxAH:  count(a.OrigAttrMaxAH),
		MaxSRQ: count(a.OrigAttrMaxSRQ), MaxSRQWR: count(a.OrigAttrMaxSRQWR), MaxSRQSGE: count(a.OrigAttrMaxSRQSGE),
		MaxQPRdAtomic: count(a.OrigAttrMaxQPRDAtom), MaxQPInitRdAtomic: count(a.OrigAttrMaxQPInitRDAtom),
		MaxMcastGroups: count(a.OrigAttrMaxMcastGrp), MaxMcastQP: count(a.OrigAttrMaxMcastQPAttach),
		MaxPKeys:        int(a.OrigAttrMaxPkeys),
		Atomic:          verbs.AtomicCap(a.OrigAttrAtomicCap),
		LocalCAAckDelay: 4096 * time.Nanosecond << min(a.OrigAttrLocalCaAckDelay, 31),
	}
	if transport == verbs.TransportIWARP {
		d.attr.SinkAccess |= verbs.RemoteWrite
	}
	d.attr.Caps = capsOf(caps, a, transport, ibverbs.Ext(d.ctx, ibverbs.BackOpenXRCD) != 0)
	if d.attr.Caps&verbs.CapXRC != 0 {
		d.attr.MaxXRCD = d.attr.MaxPD
	}
	port, err := d.queryPort(1)
	if err != nil {
		return fmt.Errorf("query_port: %w", err)
	}
	d.attr.MaxMsgSize = port.MaxMsg
	d.attr.MaxInline = d.probeInline()
	return nil
}

// capsOf returns the abilities that flags and limits tell of.
func capsOf(flags ibverbs.DeviceCapFlags, a *ibverbs.DeviceAttrEx, transport verbs.Transport,
	xrc bool) (c verbs.DeviceCap) {
	has := func(yes bool, cap verbs.DeviceCap) {
		if yes {
			c |= cap
		}
	}
	infiniband := transport == verbs.TransportIB
	has(a.OrigAttrMaxSRQ > 0, verbs.CapSRQ)
	has(xrc && flags&ibverbs.DeviceXRC != 0, verbs.CapXRC)
	has(flags&ibverbs.DeviceMemWindow != 0, verbs.CapMWType1)
	has(flags&ibverbs.DeviceMemWindowType2b != 0, verbs.CapMWType2B)
	has(flags&ibverbs.DeviceMemMgtExtensions != 0, verbs.CapSendInvalidate)
	has(flags&ibverbs.DeviceRCRNRNakGen != 0, verbs.CapRNRNak)
	has(flags&ibverbs.DeviceSRQResize != 0, verbs.CapSRQResize)
	has(infiniband, verbs.CapResizeCQ|verbs.CapUD)
	has(infiniband && a.OrigAttrMaxMcastGrp > 0, verbs.CapUDMulticast)
	has(infiniband, verbs.CapUC)
	has(a.OdpCapsGeneralCaps&ibverbs.OdpSupport != 0, verbs.CapOnDemand)
	return c
}

// probeInline returns how many bytes a queue pair can take inline, which only creating one tells.
func (d *device) probeInline() int {
	pd, _ := d.lib.CallErrno(d.lib.AllocPD, d.ctx)
	if pd == 0 {
		return 0
	}
	defer d.lib.CallErrno(d.lib.DeallocPD, pd)
	cq, _ := d.lib.CallErrno(d.lib.CreateCQ, d.ctx, 1, 0, 0, 0)
	if cq == 0 {
		return 0
	}
	defer d.lib.CallErrno(d.lib.DestroyCQ, cq)
	for _, n := range []uint32{4096, 2048, 1024, 512, 256, 128, 64, 16} {
		init := &ibverbs.QPInitAttrEx{SendCQ: uint64(cq), RecvCQ: uint64(cq), CapMaxSendWR: 1, CapMaxRecvWR: 1,
			CapMaxSendSGE: 1, CapMaxRecvSGE: 1, CapMaxInlineData: n, QPType: ibverbs.QptRC}
		if qp, _ := d.lib.CallErrno(d.lib.CreateQP, pd, uintptr(unsafe.Pointer(init))); qp != 0 {
			d.lib.CallErrno(d.lib.DestroyQP, qp)
			return int(n)
		}
	}
	return 0
}

func (d *device) QueryDevice() verbs.DeviceAttr { return d.attr }

func (d *device) SetEventSink(f func(verbs.EventType, int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sink = f
}

// enter begins a call that needs the context. The caller ends it with leave.
func (d *device) enter() error {
	d.life.RLock()
	if d.closed {
		d.life.RUnlock()
		return verbs.ErrClosed
	}
	return nil
}

func (d *device) leave() { d.life.RUnlock() }

// made enters an object, which Close destroys.
func (d *device) made(o object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order++
	d.objects[o] = d.order
	d.observed.add(o, uint32(d.order))
}

// gone takes an object out.
func (d *device) gone(o object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, here := d.objects[o]; here {
		delete(d.objects, o)
		d.observed.remove(o)
	}
}

// end destroys an object for the program, once.
func (d *device) end(o object) error {
	if d.enter() != nil {
		return nil // Close has destroyed it
	}
	defer d.leave()
	if err := o.destroy(); err != nil {
		return err
	}
	d.gone(o)
	return nil
}

// Close destroys all objects, the last ones first. Goroutines that deal with events may call the device until
// they have ended, and are refused; so life is not held here.
func (d *device) Close() error {
	d.life.Lock()
	again := d.closed
	d.closed = true
	d.life.Unlock()
	if again {
		<-d.ended
		return nil
	}
	defer close(d.ended)
	d.cmMu.Lock()
	if d.cm != nil {
		d.cm.close()
	}
	d.cmMu.Unlock()
	d.mu.Lock()
	made := d.objects
	d.objects, d.observed = nil, observed{}
	d.mu.Unlock()
	left := slices.SortedFunc(maps.Keys(made), func(a, b object) int { return cmp.Compare(made[b], made[a]) })
	// A region that has changed its domain may be older than the domain: objects in use are left for the next round.
	for range 3 {
		var busy []object
		for _, o := range left {
			if o.destroy() != nil {
				busy = append(busy, o)
			}
		}
		if left = busy; left == nil {
			break
		}
	}
	for _, o := range left {
		o.abandon()
	}
	d.stopEvents()
	r, errno := d.lib.CallErrno(d.lib.CloseDevice, d.ctx)
	for _, o := range left {
		if m, ok := o.(*mr); ok {
			m.free() // the kernel has ended the registration with the context
		}
	}
	return resultOf(r, errno)
}

// QPStats returns the statistics that the driver has of its queue pairs.
func (d *device) QPStats() ([]verbs.QPStats, error) {
	d.mu.Lock()
	var qps []*qp
	for _, q := range d.qps {
		qps = append(qps, q)
	}
	d.mu.Unlock()
	var all []verbs.QPStats
	for _, q := range qps {
		s, _ := q.Stats()
		all = append(all, s)
	}
	return all, nil
}

// count converts a limit, which some drivers leave at more than an int32.
func count(v uint32) int { return int(min(v, 1<<31-1)) }

// be64 converts v to network byte order.
func be64(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}

func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
