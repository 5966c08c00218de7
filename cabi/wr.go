// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// cSendWR is struct ibv_send_wr. Its scatter list has the layout of verbs.SGE, and is used in
// place.
type cSendWR struct {
	id     uint64
	next   *cSendWR
	sgl    *verbs.SGE
	numSGE int32
	opcode uint32
	flags  uint32
	imm    uint32 // network byte order, or the key to be invalidated
	remote [4]uint64
	srqn   uint32
	mw     unsafe.Pointer
	mwKey  uint32
	bind   cBindInfo
}

// cBindInfo is struct ibv_mw_bind_info.
type cBindInfo struct {
	mr     unsafe.Pointer
	addr   uint64
	length uint64
	access uint32
}

// cRecvWR is struct ibv_recv_wr.
type cRecvWR struct {
	id     uint64
	next   *cRecvWR
	sgl    *verbs.SGE
	numSGE int32
}

// The compiler checks them against the headers' sizes.
var (
	_ [0]byte = [unsafe.Sizeof(cSendWR{}) - C.sizeof_struct_ibv_send_wr]byte{}
	_ [0]byte = [unsafe.Sizeof(cBindInfo{}) - C.sizeof_struct_ibv_mw_bind_info]byte{}
	_ [0]byte = [unsafe.Sizeof(cRecvWR{}) - C.sizeof_struct_ibv_recv_wr]byte{}
	_ [0]byte = [unsafe.Sizeof(verbs.SGE{}) - C.sizeof_struct_ibv_sge]byte{}
)

func (w *cSendWR) at(n int) *cSendWR {
	for ; n > 0; n-- {
		w = w.next
	}
	return w
}

// unbind undoes the changes of convert to windows: n work requests were not posted.
func (w *cSendWR) unbind(n int) {
	for ; n > 0; w, n = w.next, n-1 {
		if sendOp[w.opcode] != verbs.OpBindMW {
			continue
		}
		c := (*C.struct_rj_mw)(w.mw)
		if mw := mws.get(uint64(c.handle)); mw != nil {
			c.mw.rkey = C.uint32_t(mw.RKey())
		}
	}
}

func (w *cRecvWR) at(n int) *cRecvWR {
	for ; n > 0; n-- {
		w = w.next
	}
	return w
}

// sgl returns a scatter list in C's memory. It returns false for a list that no queue takes.
func sgl(p *verbs.SGE, n int32) ([]verbs.SGE, bool) {
	if n > maxSGL {
		return nil, false
	}
	return sliceOf(p, n)
}

// tooLong stands for the scatter list of a receive that no queue takes: the receives before it are posted.
var tooLong [maxSGL + 1]verbs.SGE

// recvList converts a list of receives. Of a list longer than the queue it reads only one more,
// because a list may be circular.
func recvList(wrs []verbs.RecvWR, w *cRecvWR, maxWR int) []verbs.RecvWR {
	for ; w != nil && len(wrs) <= maxWR; w = w.next {
		list, valid := sgl(w.sgl, w.numSGE)
		if !valid {
			list = tooLong[:]
		}
		wrs = append(wrs, verbs.RecvWR{ID: w.id, SGL: list})
	}
	return wrs
}

// wrFlush is IBV_WR_FLUSH, which headers before rdma-core 47 do not have.
const wrFlush = 14

// sendOp maps C's numbers to operations. 0 is not supported.
var sendOp = [16]verbs.SendOp{
	C.IBV_WR_RDMA_WRITE:           verbs.OpWrite,
	C.IBV_WR_RDMA_WRITE_WITH_IMM:  verbs.OpWriteImm,
	C.IBV_WR_SEND:                 verbs.OpSend,
	C.IBV_WR_SEND_WITH_IMM:        verbs.OpSendImm,
	C.IBV_WR_RDMA_READ:            verbs.OpRead,
	C.IBV_WR_ATOMIC_CMP_AND_SWP:   verbs.OpCompareSwap,
	C.IBV_WR_ATOMIC_FETCH_AND_ADD: verbs.OpFetchAdd,
	C.IBV_WR_LOCAL_INV:            verbs.OpLocalInv,
	C.IBV_WR_BIND_MW:              verbs.OpBindMW,
	C.IBV_WR_SEND_WITH_INV:        verbs.OpSendInv,
	wrFlush:                       verbs.OpFlush,
	C.IBV_WR_ATOMIC_WRITE:         verbs.OpAtomicWrite,
}

func sendFlags(f uint32) (s verbs.SendFlags) {
	if f&C.IBV_SEND_SIGNALED != 0 {
		s |= verbs.Signaled
	}
	if f&C.IBV_SEND_SOLICITED != 0 {
		s |= verbs.Solicited
	}
	if f&C.IBV_SEND_FENCE != 0 {
		s |= verbs.Fence
	}
	return s
}

// convert converts a work request. It returns false if q cannot have it.
func (q *qp) convert(w *cSendWR, to *verbs.SendWR) bool {
	if w.opcode >= uint32(len(sendOp)) {
		return false
	}
	list, valid := sgl(w.sgl, w.numSGE)
	if !valid {
		return false
	}
	*to = verbs.SendWR{ID: w.id, Op: sendOp[w.opcode], Flags: sendFlags(w.flags), SGL: list, SRQN: w.srqn}
	if w.flags&C.IBV_SEND_INLINE != 0 {
		var fits bool
		if to.Inline, fits = q.inline(to.SGL); !fits ||
			q.context.dev.nic && len(to.SGL) > int(q.init.cap.max_send_sge) {
			return false
		}
		to.SGL = nil
	}
	switch to.Op {
	case verbs.OpSendImm, verbs.OpWriteImm:
		to.Imm = be32(w.imm)
	case verbs.OpSendInv, verbs.OpLocalInv:
		to.InvKey = verbs.Key(w.imm)
	}
	low := func(i int) uint32 { return *(*uint32)(unsafe.Pointer(&w.remote[i])) }
	switch to.Op {
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpAtomicWrite:
		to.Remote = verbs.Remote{Addr: w.remote[0], Key: verbs.Key(low(1))}
	case verbs.OpCompareSwap:
		to.Remote = verbs.Remote{Addr: w.remote[0], Key: verbs.Key(low(3))}
		to.Compare, to.Swap = w.remote[1], w.remote[2]
	case verbs.OpFetchAdd:
		to.Remote = verbs.Remote{Addr: w.remote[0], Key: verbs.Key(low(3))}
		to.Add = w.remote[1]
	case verbs.OpFlush: // as wr_flush of c/builder.c has it
		if w.remote[1] > math.MaxUint32 {
			return false
		}
		to.Remote = verbs.Remote{Addr: w.remote[0], Key: verbs.Key(low(3))}
		to.FlushLen, to.FlushLevel, to.FlushScope = uint32(w.remote[1]), verbs.FlushLevel(w.remote[2]),
			verbs.FlushScope(w.remote[2]>>8)
	case verbs.OpBindMW:
		mw := (*C.struct_rj_mw)(w.mw)
		if mw == nil {
			return false
		}
		info, known := bindInfo(mws.get(uint64(mw.handle)), w.mwKey, &w.bind)
		if !known || info.MW == nil {
			return false
		}
		to.Bind = &info
		mw.mw.rkey = mw.mw.rkey&^0xff | C.uint32_t(w.mwKey)&0xff // as the device does
	default:
		if q.Type() != verbs.UD {
			break
		}
		ah := (*C.struct_rj_ah)(*(*unsafe.Pointer)(unsafe.Pointer(&w.remote[0])))
		if ah == nil {
			return false
		}
		to.AH = ahs.get(uint64(ah.handle))
		ud := (*[2]uint32)(unsafe.Pointer(&w.remote[1]))
		to.RemoteQPN, to.RemoteQKey = verbs.QPN(ud[0]&0xffffff), verbs.QKey(ud[1])
	}
	return true
}

// maxSGL is more than any queue pair takes.
const maxSGL = 1 << 10

// maxCheckedInline is more than any queue pair takes: the checker sees data that is too long before the device refuses
// it.
const maxCheckedInline = 1 << 16

// inline returns the inline data of a work request. It returns false, without reading the data, if
// it is more than q takes.
func (q *qp) inline(list []verbs.SGE) ([]byte, bool) {
	if len(list) == 1 {
		return bytesAt(list[0].Addr, list[0].Length)
	}
	room := uint64(q.init.cap.max_inline_data)
	if checking.checker != nil {
		room = maxCheckedInline
	}
	start := len(q.data)
	for _, s := range list {
		if uint64(s.Length) > room {
			return nil, false
		}
		room -= uint64(s.Length)
		b, valid := bytesAt(s.Addr, s.Length)
		if !valid {
			return nil, false
		}
		q.data = append(q.data, b...)
	}
	return q.data[start:len(q.data):len(q.data)], true
}

// bytesAt returns memory of the program. It returns false if there cannot be any.
func bytesAt(addr uint64, n uint32) ([]byte, bool) {
	if n == 0 {
		return []byte{}, true
	}
	return sliceOf(*(**byte)(unsafe.Pointer(&addr)), n)
}
