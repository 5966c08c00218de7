// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Completions that one call of C takes: at first, and at most.
const (
	firstPoll = 16
	mostPoll  = 256
)

// cq is a completion queue.
type cq struct {
	driver.UnsupportedCQ
	numbered
	dev      *device
	c        uintptr // struct ibv_cq
	events   driver.CQEvents
	overflow atomic.Bool
	armed    atomic.Bool  // an event was requested, and has not come
	capacity atomic.Int32 // the part that observers see
	closed   atomic.Bool

	mu   sync.Mutex
	gone bool
	wcs  []ibverbs.WC // where C writes completions
	args ibverbs.Args
	bare bool // without timestamps
	last *qp  // whose completion came last
}

func (d *device) CreateCQ(cqe int, ev driver.CQEvents) (driver.CQ, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if cqe > d.attr.MaxCQE {
		return nil, fail("create_cq", verbs.ErrInvalid, limit("entries", cqe, d.attr.MaxCQE))
	}
	c, errno := d.lib.CallErrno(d.lib.CreateCQ, d.ctx, uintptr(cqe), 0, d.channel.c, 0)
	if err := madeOf(c, errno); err != nil {
		return nil, err
	}
	q := &cq{dev: d, c: c, events: ev, wcs: make([]ibverbs.WC, firstPoll)}
	q.capacity.Store(q.entries())
	d.mu.Lock()
	d.cqs[c] = q
	d.mu.Unlock()
	d.made(q)
	return q, nil
}

// OmitTimestamps leaves out when completions were taken.
func (q *cq) OmitTimestamps() { q.bare = true }

// Poll takes completions: one call of C, unless there are more than mostPoll.
func (q *cq) Poll(wcs []verbs.WC) (n int) {
	if len(wcs) == 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return 0
	}
	if len(wcs) > len(q.wcs) && len(q.wcs) < mostPoll {
		q.wcs = make([]ibverbs.WC, min(len(wcs), mostPoll))
	}
	for n < len(wcs) {
		room := min(len(wcs)-n, len(q.wcs))
		q.args = ibverbs.Args{A: q.c, B: uintptr(room), C: uintptr(unsafe.Pointer(unsafe.SliceData(q.wcs)))}
		got := q.args.Call(q.dev.ops.pollCQ)
		var now uint64
		if got > 0 && !q.bare {
			now = q.dev.Clock()
		}
		for i := range max(got, 0) {
			if q.convert(&wcs[n], &q.wcs[i]) {
				wcs[n].Timestamp = now
				n++
			}
		}
		if got < room {
			break
		}
	}
	runtime.KeepAlive(q)
	return n
}

// opcodes are the operations by their numbers in C.
var opcodes = [...]verbs.WCOp{
	ibverbs.WCSend: verbs.WCSend, ibverbs.WCRdmaWrite: verbs.WCWrite, ibverbs.WCRdmaRead: verbs.WCRead,
	ibverbs.WCCompSwap: verbs.WCCompareSwap, ibverbs.WCFetchAdd: verbs.WCFetchAdd, ibverbs.WCBindMW: verbs.WCBindMW,
	ibverbs.WCLocalInv: verbs.WCLocalInv,
	ibverbs.WCRecv:     verbs.WCRecv, ibverbs.WCRecvRdmaWithImm: verbs.WCRecvWriteImm,
}

// convert makes a completion of one of C. It returns false for one of a queue pair that is closed: some devices
// leave them in the queue.
func (q *cq) convert(wc *verbs.WC, c *ibverbs.WC) bool {
	qp := q.of(verbs.QPN(c.QPNum))
	if qp == nil {
		return false
	}
	*wc = verbs.WC{ID: c.WRID, Status: verbs.Status(c.Status), QPN: verbs.QPN(c.QPNum), VendorErr: c.VendorErr}
	if c.Status != ibverbs.WCSuccess {
		if c.Status != ibverbs.WCWRFlushErr {
			qp.happened(driver.EventQPBroken)
		}
		return true
	}
	if c.Opcode&ibverbs.WCRecv == 0 {
		qp.send.out.complete()
	}
	if int(c.Opcode) < len(opcodes) {
		wc.Op = opcodes[c.Opcode]
	}
	wc.ByteLen, wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits, wc.SrcQPN = c.ByteLen, c.PkeyIndex, c.Slid, c.SL,
		c.DlidPathBits, verbs.QPN(c.SrcQP)
	if c.WCFlags&ibverbs.WCGRH != 0 && qp.typ == verbs.UD { // rxe says so of every packet
		wc.Flags |= verbs.WithGRH
	}
	if c.WCFlags&ibverbs.WCWithInv != 0 {
		wc.Flags |= verbs.WithInv
		wc.InvKey = verbs.Key(c.ImmData)
	} else if c.WCFlags&ibverbs.WCWithImm != 0 {
		wc.Flags |= verbs.WithImm
		wc.Imm = fromBE32(c.ImmData)
	}
	return true
}

// of returns an open queue pair by its number; nil: there is none.
func (q *cq) of(n verbs.QPN) *qp {
	if q.last == nil || q.last.num != n || q.last.closed.Load() {
		q.dev.mu.Lock()
		q.last = q.dev.numbers[n]
		q.dev.mu.Unlock()
	}
	return q.last
}

// fromBE32 converts v from network byte order to the host's, and the other way around.
func fromBE32(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.BigEndian.Uint32(b[:])
}

func (q *cq) ReqNotify(solicitedOnly bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	only := uintptr(0)
	if solicitedOnly {
		only = 1
	}
	q.armed.Store(true)
	q.args = ibverbs.Args{A: q.c, B: only}
	return resultOf(uintptr(q.args.Call(q.dev.ops.reqNotify)), 0)
}

func (q *cq) Resize(cqe int) error {
	if err := q.dev.enter(); err != nil {
		return err
	}
	defer q.dev.leave()
	if cqe <= 0 || cqe > q.dev.attr.MaxCQE {
		return fail("resize_cq", verbs.ErrInvalid, limit("entries", cqe, q.dev.attr.MaxCQE))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	r, errno := q.dev.lib.CallErrno(q.dev.lib.ResizeCQ, q.c, uintptr(cqe))
	q.capacity.Store(q.entries())
	return lacking("resize_cq", resultOf(r, errno), "ibv_resize_cq")
}

// entries returns how many completions fit. C keeps the number in its structure.
func (q *cq) entries() int32 { return *ibverbs.Pointer[int32](q.c + ibverbs.CQEntries) }

func (q *cq) Capacity() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return 0
	}
	return int(q.entries())
}

func (q *cq) overflowed() {
	q.overflow.Store(true)
	q.events.Error()
}

func (q *cq) Err() error {
	if q.overflow.Load() {
		return verbs.ErrOverflow
	}
	if q.closed.Load() || q.dev.removed.Load() {
		return verbs.ErrClosed
	}
	return nil
}

func (q *cq) Destroy() error { return q.dev.end(q) }

func (q *cq) destroy() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return nil
	}
	d := q.dev
	d.mu.Lock()
	delete(d.cqs, q.c)
	d.mu.Unlock()
	r, errno := d.lib.CallErrno(d.lib.DestroyCQ, q.c)
	if err := destroyed(r, errno); err != nil {
		d.mu.Lock()
		d.cqs[q.c] = q
		d.mu.Unlock()
		return err
	}
	q.end()
	return nil
}

func (q *cq) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end()
}

// end is called with the lock held.
func (q *cq) end() {
	q.gone = true
	q.closed.Store(true)
	q.events.Completion() // goroutines that wait are woken
}
