// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
// #include "guard.h"
//
// typedef int (*rj_stack_of)(uintptr_t *pcs, int room);
// static int rj_call_stack(rj_stack_of stack, uintptr_t *pcs, int room) { return stack(pcs, room); }
// typedef int (*rj_protect_pages)(uintptr_t low, uintptr_t high);
// typedef int (*rj_release_pages)(int guard, struct rj_touch *touch);
// static int rj_call_protect(rj_protect_pages f, uintptr_t low, uintptr_t high) { return f(low, high); }
// static int rj_call_release(rj_release_pages f, int guard, struct rj_touch *touch) { return f(guard, touch); }
// static uintptr_t rj_own_code(void) { return (uintptr_t)rj_call_stack; }
import "C"

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// checking is the checker of the program's calls, which c/logops.c reports.
var checking struct {
	checker *check.Checker // nil: nothing is checked
	handles *check.Handles

	mu      sync.Mutex
	calls   map[*C.char]*calllog.Call // by the names that C has for them
	threads map[uintptr]*checkedCall
	ended   map[uint64]uint64 // the queue pairs that rdma_destroy_qp has destroyed, by their ids
}

// checkedCall is the call that a thread is in.
type checkedCall struct {
	call *calllog.Call
	args []uint64
	uses []check.Use
	made []check.Made
}

//export rj_check_with
func rj_check_with(stack C.rj_stack_of) {
	checker, _ := check.Process() // opening a device reports the error
	if checker == nil {
		return
	}
	check.UseStacks(check.Stacks{Capture: func(pcs []uintptr) int {
		return int(C.rj_call_stack(stack, (*C.uintptr_t)(unsafe.Pointer(&pcs[0])), C.int(len(pcs))))
	}, Describe: describe, Module: innermost})
	checking.calls, checking.threads, checking.ended = map[*C.char]*calllog.Call{}, map[uintptr]*checkedCall{},
		map[uint64]uint64{}
	checking.checker, checking.handles = checker, checker.Handles()
}

//export rj_check_protect
func rj_check_protect(protect C.rj_protect_pages, release C.rj_release_pages) {
	check.UsePages(check.Pages{Protect: func(low, high uintptr) int {
		return int(C.rj_call_protect(protect, C.uintptr_t(low), C.uintptr_t(high)))
	}, Release: func(guard int) *check.Touch {
		var t C.struct_rj_touch
		if C.rj_call_release(release, C.int(guard), &t) == 0 {
			return nil
		}
		how := map[uint32]string{C.RJ_USED: "used", C.RJ_READ: "read", C.RJ_WRITTEN: "written"}[uint32(t.how)]
		pcs := unsafe.Slice((*uintptr)(unsafe.Pointer(&t.pcs[0])), int(t.n))
		return &check.Touch{At: uintptr(t.at), How: how,
			Place: check.Place{What: "It was " + how, When: time.Unix(0, int64(t.when)), Stack: check.StackOf(pcs)}}
	}})
}

// notLogged are calls that the checker sees and the log does not.
var notLogged = map[string]*calllog.Call{
	"ibv_wr_start": {Name: "ibv_wr_start", Params: []calllog.Param{{Name: "qp", Type: "qp"}}, Result: "void"},
	"ibv_wr_abort": {Name: "ibv_wr_abort", Params: []calllog.Param{{Name: "qp", Type: "qp"}}, Result: "void"},
}

// begun returns the record of the call that a thread begins; nil: the table does not have it.
func begun(name *C.char, args []uint64, thread uintptr) *checkedCall {
	checking.mu.Lock()
	defer checking.mu.Unlock()
	call, known := checking.calls[name]
	if !known {
		text := strings.TrimPrefix(C.GoString(name), "_")
		if call = calllog.Find(text); call == nil {
			call = notLogged[text]
		}
		checking.calls[name] = call
	}
	if call == nil || len(call.Params) > len(args) {
		return nil
	}
	t := checking.threads[thread]
	if t == nil {
		t = &checkedCall{}
		checking.threads[thread] = t
	}
	t.call, t.args, t.uses, t.made = call, append(t.args[:0], args...), t.uses[:0], t.made[:0]
	return t
}

//export rj_check_begin
func rj_check_begin(name *C.char, args *C.uint64_t, n C.int, thread C.uintptr_t, pcs *C.uintptr_t, npcs C.int,
	result *C.uint64_t) C.int {
	if checking.handles == nil {
		return 0
	}
	t := begun(name, unsafe.Slice((*uint64)(args), int(n)), uintptr(thread))
	if t == nil {
		return 0
	}
	ends := t.call.Destroys()
	for i, p := range t.call.Params {
		switch {
		case p.Out || t.args[i] == 0:
		case slices.Contains(calllog.Kinds, p.Type):
			t.names(p.Type, t.args[i])
		default:
			t.inside(p.Type, t.args[i])
		}
	}
	if ends {
		for _, o := range endedBy(t.call, t.args) {
			i := slices.IndexFunc(t.uses, func(u check.Use) bool { return u.Key == o.Key })
			switch {
			case i >= 0:
				t.uses[i].Ends = true
			case o.Key != 0:
				t.uses = append(t.uses, check.Use{Kind: o.Kind, Key: o.Key, Ends: true})
			}
		}
	}
	t.endsAgain()
	stack := check.StackOf(unsafe.Slice((*uintptr)(unsafe.Pointer(pcs)), int(npcs)))
	if checking.handles.Begin(uintptr(thread), t.call.Name, stack, t.uses) {
		return 0
	}
	*result = C.uint64_t(refusal(t.call))
	return 1
}

// endsAgain has a call name the queue pair of an id that has none any more: it was destroyed by rdma_destroy_qp, too.
func (t *checkedCall) endsAgain() {
	if t.call.Name != "rdma_destroy_qp" && t.call.Name != "rdma_destroy_id" {
		return
	}
	checking.mu.Lock()
	defer checking.mu.Unlock()
	id := t.args[0]
	if t.call.Name == "rdma_destroy_id" {
		delete(checking.ended, id)
		return
	}
	for _, u := range t.uses {
		if u.Kind == "qp" {
			checking.ended[id] = uint64(u.Key)
			return
		}
	}
	if qp := checking.ended[id]; qp != 0 {
		t.uses = append(t.uses, check.Use{Kind: "qp", Key: uintptr(qp), Ends: true})
	}
}

// names notes an object that a call names.
func (t *checkedCall) names(kind string, key uint64) {
	if key != 0 {
		t.uses = append(t.uses, check.Use{Kind: kind, Key: uintptr(key)})
	}
}

// maxList is how many work requests of a list are looked at: it may be circular.
const maxList = 4096

// inside notes the objects that a struct names, or a list of work requests.
func (t *checkedCall) inside(typ string, p uint64) {
	switch typ {
	case "qp_init":
		if a := at[C.struct_ibv_qp_init_attr](p); a != nil {
			t.queues(a.send_cq, a.recv_cq, a.srq)
		}
	case "qp_init_ex":
		if a := at[C.struct_ibv_qp_init_attr_ex](p); a != nil {
			t.queues(a.send_cq, a.recv_cq, a.srq)
			if a.comp_mask&C.IBV_QP_INIT_ATTR_PD != 0 {
				t.names("pd", address(a.pd))
			}
		}
	case "srq_init_ex":
		if a := at[C.struct_ibv_srq_init_attr_ex](p); a != nil {
			if a.comp_mask&C.IBV_SRQ_INIT_ATTR_PD != 0 {
				t.names("pd", address(a.pd))
			}
			if a.comp_mask&C.IBV_SRQ_INIT_ATTR_CQ != 0 {
				t.names("cq", address(a.cq))
			}
		}
	case "cq_attr_ex":
		if a := at[C.struct_ibv_cq_init_attr_ex](p); a != nil {
			t.names("channel", address(a.channel))
		}
	case "parent_attr":
		if a := at[C.struct_ibv_parent_domain_init_attr](p); a != nil {
			t.names("pd", address(a.pd))
			t.names("td", address(a.td))
		}
	case "mw_bind":
		if b := at[C.struct_ibv_mw_bind](p); b != nil {
			t.names("mr", address(b.bind_info.mr))
		}
	case "send_wrs":
		t.workRequests(given[cSendWR](p))
	}
}

func (t *checkedCall) queues(send, recv *C.struct_ibv_cq, srq *C.struct_ibv_srq) {
	t.names("cq", address(send))
	if recv != send {
		t.names("cq", address(recv))
	}
	t.names("srq", address(srq))
}

// workRequests notes the address handles and windows of work requests.
func (t *checkedCall) workRequests(w *cSendWR) {
	if len(t.args) == 0 || t.args[0] == 0 {
		return
	}
	datagrams := given[C.struct_ibv_qp](t.args[0]).qp_type == C.IBV_QPT_UD
	for n := 0; w != nil && n < maxList; n++ {
		switch {
		case w.opcode == C.IBV_WR_BIND_MW:
			t.names("mw", uint64(uintptr(w.mw)))
			t.names("mr", uint64(uintptr(w.bind.mr)))
		case datagrams && (n == 0 || w.remote[0] != uint64(t.uses[len(t.uses)-1].Key)):
			t.names("ah", w.remote[0])
		}
		w = w.next
	}
}

// refusal returns the result of a call that is refused.
func refusal(c *calllog.Call) uint64 {
	switch {
	case c.Name == "ibv_query_gid_table":
		minus := -int64(syscall.EINVAL)
		return uint64(minus)
	case c.Result == "0":
		return uint64(syscall.EINVAL)
	case c.Result == "-1", c.Result == "n":
		return 1<<64 - 1
	}
	return 0
}

// failed reports whether a result is an error.
func failed(c *calllog.Call, result uint64) bool {
	switch c.Result {
	case "0":
		return int32(result) != 0
	case "-1", "n":
		return int32(result) < 0
	case "void", "value":
		return false
	}
	return result == 0
}

//export rj_check_end
func rj_check_end(thread C.uintptr_t, result C.uint64_t) {
	if checking.handles == nil {
		return
	}
	checking.mu.Lock()
	t := checking.threads[uintptr(thread)]
	checking.mu.Unlock()
	if t == nil {
		return
	}
	bad := failed(t.call, uint64(result))
	if !bad {
		t.creates(uint64(result))
	}
	checking.handles.End(uintptr(thread), bad, t.made)
	if !bad {
		t.events(uintptr(thread))
	}
}

// creates finds the objects that a call has created.
func (t *checkedCall) creates(result uint64) {
	if kind := t.call.Result; slices.Contains(calllog.Kinds, kind) {
		t.makes(kind, result, false)
	}
	for i, p := range t.call.Params {
		switch p.Type {
		case "id":
			t.has(t.args[i])
		case "idp":
			id := *given[uint64](t.args[i])
			t.makes("id", id, false)
			t.has(id)
		case "cm_eventp":
			e := *given[uint64](t.args[i])
			t.makes("event", e, false)
			if event := given[C.struct_rdma_cm_event](e); event.event == C.RDMA_CM_EVENT_CONNECT_REQUEST {
				t.makes("id", address(event.id), false)
			}
		}
	}
}

func (t *checkedCall) makes(kind string, key uint64, internal bool) {
	if key == 0 {
		return
	}
	t.made = append(t.made, check.Made{Kind: kind, Key: uintptr(key), Name: nameOf(kind, key), Single: t.single(),
		Internal: internal})
}

// has finds the objects of an id: queues that the library has created for it go with it.
func (t *checkedCall) has(p uint64) {
	if !strings.HasPrefix(t.call.Name, "rdma_create_") && t.call.Name != "rdma_get_request" {
		return
	}
	id := at[C.struct_rdma_cm_id](p)
	if id == nil {
		return
	}
	t.makes("qp", address(id.qp), false)
	t.makes("srq", address(id.srq), false)
	t.makes("cq", address(id.send_cq), true)
	t.makes("cq", address(id.recv_cq), true)
	t.makes("channel", address(id.send_cq_channel), true)
	t.makes("channel", address(id.recv_cq_channel), true)
}

// nameOf returns the name that the checker has for the object of package verbs behind C's; empty: there is none.
func nameOf(kind string, key uint64) string {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&key))
	var v any
	switch kind {
	case "pd":
		if d := (*C.struct_rj_pd)(p); d.parent == nil {
			if o := pds.get(uint64(d.handle)); o != nil {
				v = o.PD
			}
		}
	case "mr":
		if o := mrs.get(uint64((*C.struct_rj_mr)(p).handle)); o != nil {
			v = o.MR
		}
	case "mw":
		v = mws.get(uint64((*C.struct_rj_mw)(p).handle))
	case "ah":
		v = ahs.get(uint64((*C.struct_rj_ah)(p).handle))
	case "channel":
		if o := channels.get(uint64((*C.struct_rj_channel)(p).handle)); o != nil {
			v = o.CompChannel
		}
	case "cq":
		if o := cqs.get(uint64((*C.struct_rj_cq)(p).handle)); o != nil {
			v = o.CQ
		}
	case "srq":
		if o := srqs.get(uint64((*C.struct_rj_srq)(p).handle)); o != nil {
			v = o.SRQ
		}
	case "qp":
		if o := qps.get(uint64((*C.struct_rj_qp)(p).handle)); o != nil {
			v = o.QP
		}
	}
	if v == nil {
		return ""
	}
	return checking.checker.NameOf(v)
}

// single reports whether one thread at a time may use the object that the call creates: it is of a thread domain, or a
// completion queue that was created so.
func (t *checkedCall) single() bool {
	domain := func(pd *C.struct_ibv_pd) bool { return pd != nil && (*C.struct_rj_pd)(unsafe.Pointer(pd)).td != nil }
	switch t.call.Name {
	case "ibv_create_cq_ex":
		a := at[C.struct_ibv_cq_init_attr_ex](t.args[1])
		return a != nil && (a.comp_mask&C.IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 &&
			a.flags&C.IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 ||
			a.comp_mask&C.IBV_CQ_INIT_ATTR_MASK_PD != 0 && domain(a.parent_domain))
	case "ibv_create_qp_ex":
		a := at[C.struct_ibv_qp_init_attr_ex](t.args[1])
		return a != nil && a.comp_mask&C.IBV_QP_INIT_ATTR_PD != 0 && domain(a.pd)
	case "ibv_create_qp", "ibv_create_srq":
		return domain(at[C.struct_ibv_pd](t.args[0]))
	}
	return false
}

// events notes the events that a call has taken or acknowledged.
func (t *checkedCall) events(thread uintptr) {
	h := checking.handles
	switch t.call.Name {
	case "ibv_get_cq_event":
		h.Got(thread, uintptr(*given[uint64](t.args[1])), 0)
	case "ibv_ack_cq_events":
		h.Acknowledged(uintptr(t.args[0]), 0, int(uint32(t.args[1])))
	case "ibv_get_async_event":
		h.Got(thread, asyncObject(t.args[1]), 0)
	case "ibv_ack_async_event":
		h.Acknowledged(asyncObject(t.args[0]), 0, 1)
	case "rdma_get_cm_event":
		e := *given[uint64](t.args[1])
		h.Got(thread, cmOwner(e), uintptr(e))
	case "rdma_ack_cm_event":
		h.Acknowledged(cmOwner(t.args[0]), uintptr(t.args[0]), 1)
	}
}

// asyncObject returns the object of an asynchronous event, 0 for one of a port.
func asyncObject(p uint64) uintptr {
	e := given[C.struct_ibv_async_event](p)
	switch e.event_type {
	case C.IBV_EVENT_DEVICE_FATAL, C.IBV_EVENT_PORT_ACTIVE, C.IBV_EVENT_PORT_ERR, C.IBV_EVENT_LID_CHANGE,
		C.IBV_EVENT_PKEY_CHANGE, C.IBV_EVENT_SM_CHANGE, C.IBV_EVENT_CLIENT_REREGISTER, C.IBV_EVENT_GID_CHANGE:
		return 0
	}
	return *(*uintptr)(unsafe.Pointer(&e.element))
}

// cmOwner returns the id that counts an event. A destroyed id keeps its memory for a while.
func cmOwner(p uint64) uintptr {
	return uintptr(unsafe.Pointer(given[C.struct_rj_cm_event](p).owner))
}

// given returns the value behind a pointer that a call has used with success.
func given[T any](p uint64) *T { return *(**T)(unsafe.Pointer(&p)) }

//export rj_check_unacknowledged
func rj_check_unacknowledged(object unsafe.Pointer) {
	if checking.handles != nil {
		checking.handles.Unacknowledged(uintptr(object))
	}
}

//export rj_check_freed
func rj_check_freed(h C.uint64_t, start, end C.uintptr_t, how *C.char) {
	if mr := mrs.get(uint64(h)); mr != nil && checking.checker != nil {
		const remote = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind
		checking.checker.Freed(mr.MR, uint64(start), uint64(end), C.GoString(how), mr.access&remote != 0)
	}
}

//export rj_check_wait
func rj_check_wait(h C.uint64_t, begins C.int) {
	ch := channels.get(uint64(h))
	switch {
	case ch == nil || checking.checker == nil:
	case begins != 0:
		checking.checker.Waits(ch.CompChannel)
	default:
		checking.checker.Woken(ch.CompChannel, nil)
	}
}

// textAddress returns an address in this library's code.
func textAddress() uintptr { return uintptr(C.rj_own_code()) }
