// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
import "C"

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// calls is the log of the program's calls, which c/log.c and c/logops.c report.
var calls struct {
	once sync.Once
	log  *calllog.Log // nil: nothing is logged

	mu      sync.Mutex
	last    uint64
	pending map[uint64]*loggedCall
	reasons map[int]string // why the last call of a thread failed
}

// loggedCall is a call that has begun.
type loggedCall struct {
	*calllog.Pending
	call *calllog.Call
	args []uint64
	poll bool // a call of rsockets that does not wait
}

// arg returns an argument as C passed it, 0 if there is none of that name.
func (l *loggedCall) arg(name string) uint64 {
	for i, p := range l.call.Params {
		if p.Name == name {
			return l.args[i]
		}
	}
	return 0
}

// callLog returns the log. Where it cannot be written the program runs without, and standard error says so.
func callLog() *calllog.Log {
	calls.once.Do(func() {
		var err error
		if calls.log, err = calllog.Process(); err != nil {
			fmt.Fprintf(os.Stderr, "ramjet: nothing is logged, and the program runs without: %v\n", err)
		}
		calls.pending, calls.reasons = map[uint64]*loggedCall{}, map[int]string{}
	})
	return calls.log
}

//export rj_log_begin
func rj_log_begin(name *C.char, args *C.uint64_t, n C.int) C.uint64_t {
	log := callLog()
	if log == nil {
		return 0
	}
	call := calllog.Find(strings.TrimPrefix(C.GoString(name), "_"))
	if call == nil || len(call.Params) > int(n) { // more: ibv_query_port of a context's table has the size of attr, too
		return 0
	}
	l := &loggedCall{call: call}
	for _, a := range unsafe.Slice(args, int(n)) {
		l.args = append(l.args, uint64(a))
	}
	tid := unix.Gettid()
	if l.poll = l.polls(); l.poll {
		l.Pending = log.BeginPoll(call.Name, tid, l.in)
	} else {
		l.Pending = log.Begin(call.Name, tid, l.in)
	}
	if l.Pending == nil {
		// Its objects are counted all the same, so that objects have one name with each filter.
		if !changesObjects(call) {
			return 0
		}
		l.Pending = log.Unseen()
	}
	l.destroys()
	calls.mu.Lock()
	defer calls.mu.Unlock()
	delete(calls.reasons, tid)
	calls.last++
	calls.pending[calls.last] = l
	return C.uint64_t(calls.last)
}

//export rj_log_end
func rj_log_end(number, result C.uint64_t, err C.int) {
	calls.mu.Lock()
	l := calls.pending[uint64(number)]
	delete(calls.pending, uint64(number))
	tid := unix.Gettid()
	reason := calls.reasons[tid]
	delete(calls.reasons, tid)
	calls.mu.Unlock()
	if l == nil {
		return
	}
	r := l.outcome(uint64(result), syscall.Errno(err))
	if r.Failed {
		r.Reason = reason
	} else {
		l.out(r)
	}
	l.End(r)
}

// reasonFor keeps the reason for an errno, for the log of the call that returns it.
func reasonFor(err error) {
	if callLog() == nil {
		return
	}
	calls.mu.Lock()
	defer calls.mu.Unlock()
	calls.reasons[unix.Gettid()] = err.Error()
}

// outcome returns the meaning of a result.
func (l *loggedCall) outcome(result uint64, err syscall.Errno) *calllog.Result {
	r := &calllog.Result{Nothing: l.poll && l.foundNothing(int64(int32(result)), err)}
	fail := func(e syscall.Errno) {
		r.Failed, r.Errno = true, unix.ErrnoName(e)
		if r.Errno == "" {
			r.Errno = fmt.Sprintf("errno %d", int(e))
		}
	}
	switch l.call.Result {
	case "void":
		r.Void = true
	case "value":
		r.Value = int32(result)
	case "str":
		r.Value = l.value("str", result)
	case "port":
		r.Value = bits.ReverseBytes16(uint16(result))
	case "guid":
		r.Value = calllog.Hex(bits.ReverseBytes64(result))
	case "0":
		r.Value = int32(result)
		switch {
		case int32(result) == 0:
		case l.call.Name == "ibv_rereg_mr":
			fail(err)
		case strings.HasSuffix(l.call.Name, "_poll") && int32(result) == C.ENOENT: // there is no completion
			r.Value, r.Nothing = calllog.Symbol("ENOENT"), true
		default:
			fail(syscall.Errno(int32(result)))
		}
	case "size":
		r.Value = int64(result)
		if r.Value.(int64) < 0 {
			fail(err)
		}
	case "-1", "n":
		r.Value = int64(int32(result))
		if l.call.Name == "ibv_query_gid_table" {
			r.Value = int64(result)
			err = max(err, syscall.Errno(-int64(result)))
		}
		if r.Value.(int64) < 0 {
			fail(err)
		}
		r.Nothing = r.Nothing || l.call.Name == "ibv_poll_cq" && r.Value.(int64) == 0
	case "ptr":
		if r.Value = calllog.Pointer(result); result == 0 {
			fail(err)
		}
	default:
		o := calllog.Object{Kind: l.call.Result, Key: uintptr(result)}
		if r.Value = o; result == 0 {
			fail(err)
			break
		}
		r.Made = []calllog.Object{o}
	}
	return r
}

// in returns the arguments as the call begins.
func (l *loggedCall) in() (args []calllog.Arg) {
	for i, p := range l.call.Params {
		v := calllog.Pointer(l.args[i])
		if !p.Out {
			v = l.value(p.Type, l.args[i])
		}
		args = append(args, calllog.Arg{Name: p.Name, Value: v})
	}
	return args
}

// out adds the values that a call has filled in, and created objects.
func (l *loggedCall) out(r *calllog.Result) {
	log := callLog()
	for i, p := range l.call.Params {
		switch p.Type {
		case "id":
			log.Know(calllog.Object{Kind: "id", Key: uintptr(l.args[i])})
			knowID(log, l.args[i])
		case "idp":
			if id := deref(l.args[i]); id != 0 {
				r.Made = append(r.Made, calllog.Object{Kind: "id", Key: uintptr(id)})
				knowID(log, id)
			}
		case "cm_eventp":
			if e := deref(l.args[i]); e != 0 {
				r.Made = append(r.Made, calllog.Object{Kind: "event", Key: uintptr(e)})
				if event := at[C.struct_rdma_cm_event](e); event != nil {
					log.Know(objectOf("id", event.id))
					knowID(log, uint64(uintptr(unsafe.Pointer(event.id))))
				}
			}
		}
		if p.Out && l.args[i] != 0 {
			r.Out = append(r.Out, calllog.Arg{Name: p.Name, Value: l.outValue(p.Type, l.args[i], r)})
		}
	}
	switch l.call.Name {
	case "ibv_start_poll", "ibv_next_poll":
		if q := at[C.struct_rj_cq](l.args[0]); q != nil && !r.Nothing {
			r.Out = append(r.Out, calllog.Arg{Name: "wc", Value: calllog.List{completion(&q.wc)}})
		}
	}
	if strings.HasPrefix(l.call.Name, "rdma_create_") {
		l.created(r)
	}
	if len(r.Made) == 0 {
		return
	}
	switch key := uint64(r.Made[0].Key); r.Made[0].Kind {
	case "mr":
		if mr := at[C.struct_ibv_mr](key); mr != nil {
			r.Out = append(r.Out, calllog.Arg{Name: "lkey", Value: calllog.Hex(mr.lkey)},
				calllog.Arg{Name: "rkey", Value: calllog.Hex(mr.rkey)})
		}
	case "mw":
		if mw := at[C.struct_ibv_mw](key); mw != nil {
			r.Out = append(r.Out, calllog.Arg{Name: "rkey", Value: calllog.Hex(mw.rkey)})
		}
	case "qp":
		if qp := at[C.struct_ibv_qp](key); qp != nil {
			r.Out = append(append(r.Out, numbered(qp)...), l.granted()...)
			r.QPN = uint32(qp.qp_num)
		}
	}
}

// created adds the queue pair that rdma_create_qp or rdma_create_ep has created with an id.
func (l *loggedCall) created(r *calllog.Result) {
	p := l.arg("id")
	switch l.call.Name {
	case "rdma_create_qp", "rdma_create_qp_ex":
	case "rdma_create_ep":
		p = deref(p)
	default:
		return
	}
	id := at[C.struct_rdma_cm_id](p)
	if id == nil {
		return
	}
	if qp := at[C.struct_ibv_qp](address(id.qp)); qp != nil {
		r.Out = append(append(r.Out, calllog.Arg{Name: "qp", Value: objectOf("qp", qp)}), numbered(qp)...)
		r.Out = append(r.Out, l.granted()...)
	}
}

// granted returns the capacities that a new queue pair has got, which may be more than the requested ones.
func (l *loggedCall) granted() []calllog.Arg {
	var c *C.struct_ibv_qp_cap
	switch p := l.arg("attr"); l.call.Name {
	case "ibv_create_qp", "rdma_create_qp":
		c = &at[C.struct_ibv_qp_init_attr](p).cap
	case "ibv_create_qp_ex", "rdma_create_qp_ex":
		c = &at[C.struct_ibv_qp_init_attr_ex](p).cap
	default:
		return nil
	}
	return []calllog.Arg{{Name: "granted", Value: capacity(c)}}
}

// numbered returns the number of a new queue pair, its device and the device's addresses, by which the queue pair's
// packets are found in a capture.
func numbered(qp *C.struct_ibv_qp) []calllog.Arg {
	out := []calllog.Arg{{Name: "qp_num", Value: calllog.Hex(qp.qp_num)}}
	c := contexts.get(uint64(contextOf(qp.context).handle))
	if c == nil {
		return out
	}
	out = append(out, calllog.Arg{Name: "device", Value: calllog.Symbol(C.GoString(&qp.context.device.name[0]))})
	gids := calllog.List{}
	for port := 1; port <= c.dev.Query().Ports; port++ {
		all, _ := c.dev.GIDs(port) // without them, the log has the other values
		for _, g := range all[:min(len(all), calllog.MaxListed)] {
			gids = append(gids, gid(g.GID))
		}
		if a, err := c.dev.Port(port); err == nil && a.LID != 0 {
			out = append(out, calllog.Arg{Name: "lid", Value: a.LID})
		}
	}
	return append(out, calllog.Arg{Name: "gids", Value: gids})
}

// destroys notes the objects that the call ends.
func (l *loggedCall) destroys() {
	if l.call.Destroys() && len(l.args) > 0 {
		l.Destroys(endedBy(l.call, l.args)...)
	}
}

// endedBy returns the objects that a call ends which destroys some.
func endedBy(call *calllog.Call, args []uint64) (ended []calllog.Object) {
	one := func(kind string, key uint64) {
		ended = append(ended, calllog.Object{Kind: kind, Key: uintptr(key)})
	}
	name := call.Name
	whole, qp, srq := name == "rdma_destroy_ep", name == "rdma_destroy_qp", name == "rdma_destroy_srq"
	if id := at[C.struct_rdma_cm_id](args[0]); (whole || qp || srq) && id != nil {
		if whole || qp {
			one("qp", address(id.qp))
		}
		if whole || srq {
			one("srq", address(id.srq))
		}
		last := whole || qp && id.srq == nil || srq && id.qp == nil
		if last && (id.send_cq_channel != nil || id.recv_cq_channel != nil) { // it has created its own
			one("cq", address(id.send_cq))
			one("cq", address(id.recv_cq))
			one("channel", address(id.send_cq_channel))
			one("channel", address(id.recv_cq_channel))
		}
	}
	if !qp && !srq {
		one(call.Params[0].Type, args[0])
	}
	return ended
}

// changesObjects reports whether a call creates or destroys objects.
func changesObjects(c *calllog.Call) bool {
	if slices.Contains(calllog.Kinds, c.Result) || c.Destroys() {
		return true
	}
	for _, p := range c.Params {
		switch p.Type {
		case "id", "idp", "cm_eventp":
			return true
		}
	}
	return false
}

// knowID gives numbers to the objects that an id has.
func knowID(log *calllog.Log, p uint64) {
	id := at[C.struct_rdma_cm_id](p)
	if id == nil {
		return
	}
	for _, o := range []struct {
		kind string
		p    unsafe.Pointer
	}{
		{"cmchannel", unsafe.Pointer(id.channel)}, {"context", unsafe.Pointer(id.verbs)}, {"pd", unsafe.Pointer(id.pd)},
		{"channel", unsafe.Pointer(id.send_cq_channel)}, {"channel", unsafe.Pointer(id.recv_cq_channel)},
		{"cq", unsafe.Pointer(id.send_cq)}, {"cq", unsafe.Pointer(id.recv_cq)},
		{"srq", unsafe.Pointer(id.srq)}, {"qp", unsafe.Pointer(id.qp)},
	} {
		log.Know(calllog.Object{Kind: o.kind, Key: uintptr(o.p)})
	}
	if id.qp != nil {
		if qp := at[C.struct_ibv_qp](uint64(uintptr(unsafe.Pointer(id.qp)))); qp != nil {
			log.Number(uintptr(unsafe.Pointer(id.qp)), uint32(qp.qp_num))
		}
	}
}
