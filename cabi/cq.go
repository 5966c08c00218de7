// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// channel is a completion channel behind a file descriptor.
type channel struct {
	*verbs.CompChannel
	events *fdQueue[unsafe.Pointer] // C's queues
	mu     sync.Mutex
	queues map[*verbs.CQ]unsafe.Pointer

	sleeper driver.PollSleeper // nil: the device moves the data
	busy    atomic.Bool        // a thread has wait
	wait    driver.PollWait
}

// cq is a completion queue with room for the results of a poll.
type cq struct {
	*verbs.CQ
	context *deviceContext
	channel *channel
	c       unsafe.Pointer
	packet  uint8 // kind of the device's datagrams, see packetType; 0: completions have a service level
	mu      sync.Mutex
	wcs     [64]verbs.WC
}

// packetType tells the kind of a datagram's packet. Completions have it in place of the service
// level, which RoCE lacks: IPv4 or IPv6 (IBTA A17.4.5.1, with the numbers of mlx5, by which UCX
// knows where the addresses are in front of the payload).
func packetType(d *device) uint8 {
	const ipv6, ipv4 = 1, 2
	if p, err := d.Port(1); err != nil || p.Link != verbs.LinkEthernet {
		return 0
	}
	if gids, err := d.GIDs(1); err == nil && len(gids) > 0 && gids[0].GID.Addr().Is4() {
		return ipv4
	}
	return ipv6
}

var (
	channels = newTable[channel]()
	cqs      = newTable[cq]()
)

//export rj_create_channel
func rj_create_channel(h C.uint64_t, out *C.uint64_t, fd *C.int) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	v, err := c.dev.CreateCompChannel()
	if err != nil {
		return errno(err)
	}
	q, err := newFDQueue[unsafe.Pointer]()
	if err != nil {
		v.Close()
		return errno(err)
	}
	ch := &channel{CompChannel: v, events: q, queues: map[*verbs.CQ]unsafe.Pointer{}}
	armed := driver.ForwardEvents(v, ch.completion)
	if s, ok := driver.DeviceOf(c.dev.Device).(driver.PollSleeper); ok {
		ch.sleeper = s
		ch.wait = driver.PollWait{Spin: verbs.DefaultSpin, Armed: armed,
			Awake: func() bool { return !ch.events.empty() || armed() == 0 }}
	}
	objects.put(v, object{context: c})
	*out, *fd = C.uint64_t(channels.put(ch)), C.int(q.fd)
	return ok
}

// completion brings an event of a queue to the file descriptor.
func (ch *channel) completion(q *verbs.CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if c := ch.queues[q]; c != nil {
		ch.events.push(c)
	}
}

//export rj_next_completion
func rj_next_completion(h C.uint64_t) unsafe.Pointer {
	ch := channels.get(uint64(h))
	if ch == nil {
		return nil
	}
	c, _ := ch.events.pop(report)
	return ch.taken(c)
}

// report counts an event for its queue, whose destruction then waits until the program has acknowledged it.
func report(c unsafe.Pointer) {
	atomic.AddUint32((*uint32)(&(*C.struct_rj_cq)(c).comp_events_reported), 1)
}

// taken tells the checker of an event, if it is one.
func (ch *channel) taken(c unsafe.Pointer) unsafe.Pointer {
	if checking.checker != nil && c != nil {
		if q := cqs.get(uint64((*C.struct_rj_cq)(c).handle)); q != nil {
			checking.checker.Woken(ch.CompChannel, q.CQ)
		}
	}
	return c
}

//export rj_destroy_channel
func rj_destroy_channel(h C.uint64_t) C.int {
	return destroy(channels, h, func(ch *channel) io.Closer { return ch.CompChannel }, func(ch *channel) {
		ch.events.close()
		ch.leave()
	})
}

//export rj_create_cq
func rj_create_cq(h C.uint64_t, cqe C.int, chh C.uint64_t, timed C.int, out *C.struct_rj_cq) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	if cqe < 1 || int(cqe) > c.dev.Query().MaxCQE {
		return einval
	}
	opt := &verbs.CQOptions{LockedThread: true, NoTimestamps: timed == 0}
	var ch *channel
	if chh != 0 {
		if ch = channels.get(uint64(chh)); ch == nil {
			return enoent
		}
		opt.Channel = ch.CompChannel
	}
	v, err := c.dev.CreateCQ(int(cqe), opt)
	if err != nil {
		return errno(err)
	}
	q := &cq{CQ: v, context: c, channel: ch, c: unsafe.Pointer(out), packet: packetType(c.dev)}
	if ch != nil {
		ch.mu.Lock()
		ch.queues[v] = q.c
		ch.mu.Unlock()
	}
	objects.put(v, object{c, q.c, (*uint32)(&out.async_events_reported)})
	out.handle = C.uint64_t(cqs.put(q))
	out.cq.cqe = C.int(v.Capacity())
	return ok
}

//export rj_resize_cq
func rj_resize_cq(out *C.struct_rj_cq, cqe C.int) C.int {
	if out == nil {
		return einval
	}
	q := cqs.get(handleOf(out.handle, out.cq.handle))
	if q == nil {
		return enoent
	}
	if cqe < 1 {
		return einval
	}
	if err := q.Resize(int(cqe)); err != nil {
		return errno(err)
	}
	out.cq.cqe = C.int(q.Capacity())
	return ok
}

//export rj_destroy_cq
func rj_destroy_cq(h C.uint64_t) C.int {
	return destroy(cqs, h, func(q *cq) io.Closer { return q.CQ }, func(q *cq) {
		if ch := q.channel; ch != nil {
			ch.mu.Lock()
			delete(ch.queues, q.CQ)
			ch.events.remove(func(c unsafe.Pointer) bool { return c == q.c })
			ch.mu.Unlock()
		}
	})
}

//export rj_req_notify
func rj_req_notify(h C.uint64_t, solicited C.int) C.int {
	q := cqs.get(uint64(h))
	if q == nil {
		return enoent
	}
	return errno(q.ReqNotify(solicited != 0))
}

// cWC is struct ibv_wc.
type cWC struct {
	id        uint64
	status    uint32
	opcode    uint32
	vendorErr uint32
	byteLen   uint32
	imm       uint32 // network byte order; or the invalidated key
	qpNum     uint32
	srcQP     uint32
	flags     uint32
	pkeyIndex uint16
	slid      uint16
	sl        uint8
	pathBits  uint8
}

var _ [0]byte = [unsafe.Sizeof(cWC{}) - C.sizeof_struct_ibv_wc]byte{}

// wcOpcode is C's number of a completed operation.
var wcOpcode = [...]uint32{
	verbs.WCSend:         C.IBV_WC_SEND,
	verbs.WCWrite:        C.IBV_WC_RDMA_WRITE,
	verbs.WCRead:         C.IBV_WC_RDMA_READ,
	verbs.WCCompareSwap:  C.IBV_WC_COMP_SWAP,
	verbs.WCFetchAdd:     C.IBV_WC_FETCH_ADD,
	verbs.WCBindMW:       C.IBV_WC_BIND_MW,
	verbs.WCLocalInv:     C.IBV_WC_LOCAL_INV,
	verbs.WCAtomicWrite:  C.IBV_WC_ATOMIC_WRITE,
	verbs.WCFlush:        8, // IBV_WC_FLUSH of newer headers
	verbs.WCRecv:         C.IBV_WC_RECV,
	verbs.WCRecvWriteImm: C.IBV_WC_RECV_RDMA_WITH_IMM,
}

func (c *cWC) set(w *verbs.WC, packet uint8) {
	*c = cWC{id: w.ID, status: uint32(w.Status), opcode: wcOpcode[w.Op], vendorErr: w.VendorErr, byteLen: w.ByteLen,
		qpNum: uint32(w.QPN), srcQP: uint32(w.SrcQPN), pkeyIndex: w.PKeyIndex, slid: w.SLID, sl: w.SL,
		pathBits: w.DLIDPathBits}
	if w.Flags == 0 {
		return
	}
	if w.Flags&verbs.WithGRH != 0 {
		c.flags |= C.IBV_WC_GRH
		if packet != 0 {
			c.sl = packet
		}
	}
	if w.Flags&verbs.WithImm != 0 {
		c.flags |= C.IBV_WC_WITH_IMM
		c.imm = be32(w.Imm)
	}
	if w.Flags&verbs.WithInv != 0 {
		c.flags |= C.IBV_WC_WITH_INV
		c.imm = uint32(w.InvKey)
	}
}

//export rj_poll
func rj_poll(h C.uint64_t, room C.int, out *C.struct_ibv_wc) C.int {
	q := cqs.get(uint64(h))
	if q == nil {
		return -enoent
	}
	wcs, valid := sliceOf((*cWC)(unsafe.Pointer(out)), room)
	if !valid {
		return -einval
	}
	q.mu.Lock()
	n := 0
	for n < len(wcs) {
		want := min(len(wcs)-n, len(q.wcs))
		got := q.Poll(q.wcs[:want])
		for i := range got {
			wcs[n+i].set(&q.wcs[i], q.packet)
		}
		if n += got; got < want {
			break
		}
	}
	q.mu.Unlock()
	if n == 0 && q.failed() {
		return -C.int(syscall.EIO)
	}
	return C.int(n)
}

// failed reports whether the queue has overflowed, on a device that acts as a NIC.
func (q *cq) failed() bool { return q.context.dev.nic && q.Err() != nil }

//export rj_poll_one
func rj_poll_one(h C.uint64_t, out *C.struct_ibv_wc, timestamp *C.uint64_t) C.int {
	q := cqs.get(uint64(h))
	if q == nil {
		return -enoent
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Poll(q.wcs[:1]) == 0 {
		if q.failed() {
			return -C.int(syscall.EIO)
		}
		return 0
	}
	(*cWC)(unsafe.Pointer(out)).set(&q.wcs[0], q.packet)
	*timestamp = C.uint64_t(q.wcs[0].Timestamp)
	return 1
}
