// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package ibverbs

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library has the functions of libibverbs.so.1.
type Library struct {
	Path string

	GetDeviceList, FreeDeviceList, OpenDevice, CloseDevice uintptr
	QueryPort, QueryDevice, QueryGID, QueryGIDTable        uintptr
	QueryPKey                                              uintptr
	AllocPD, DeallocPD                                     uintptr
	RegMR, RegMRIova2, DeregMR, ReregMR                    uintptr
	CreateCompChannel, DestroyCompChannel                  uintptr
	CreateCQ, ResizeCQ, DestroyCQ, GetCQEvent, AckCQEvents uintptr
	CreateSRQ, ModifySRQ, QuerySRQ, DestroySRQ             uintptr
	CreateQP, ModifyQP, QueryQP, DestroyQP                 uintptr
	CreateAH, DestroyAH, AttachMcast, DetachMcast          uintptr
	GetAsyncEvent, AckAsyncEvent                           uintptr
	errno                                                  uintptr
}

var (
	loading sync.Mutex
	loaded  *Library
)

// Load loads libibverbs.so.1, once in a process: later calls return the first result.
func Load() (*Library, error) {
	loading.Lock()
	defer loading.Unlock()
	if loaded != nil {
		return loaded, nil
	}
	path, err := FindLibrary()
	if err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	l := &Library{Path: path}
	for _, f := range []struct {
		at       *uintptr
		name     string
		optional bool
	}{
		{&l.GetDeviceList, "ibv_get_device_list", false}, {&l.FreeDeviceList, "ibv_free_device_list", false},
		{&l.OpenDevice, "ibv_open_device", false}, {&l.CloseDevice, "ibv_close_device", false},
		{&l.QueryPort, "ibv_query_port", false}, {&l.QueryDevice, "ibv_query_device", false},
		{&l.QueryGID, "ibv_query_gid", false}, {&l.QueryGIDTable, "_ibv_query_gid_table", true},
		{&l.QueryPKey, "ibv_query_pkey", false},
		{&l.AllocPD, "ibv_alloc_pd", false}, {&l.DeallocPD, "ibv_dealloc_pd", false},
		{&l.RegMR, "ibv_reg_mr", false}, {&l.RegMRIova2, "ibv_reg_mr_iova2", true}, {&l.DeregMR, "ibv_dereg_mr", false},
		{&l.ReregMR, "ibv_rereg_mr", true},
		{&l.CreateCompChannel, "ibv_create_comp_channel", false},
		{&l.DestroyCompChannel, "ibv_destroy_comp_channel", false},
		{&l.CreateCQ, "ibv_create_cq", false}, {&l.ResizeCQ, "ibv_resize_cq", false},
		{&l.DestroyCQ, "ibv_destroy_cq", false},
		{&l.GetCQEvent, "ibv_get_cq_event", false}, {&l.AckCQEvents, "ibv_ack_cq_events", false},
		{&l.CreateSRQ, "ibv_create_srq", false}, {&l.ModifySRQ, "ibv_modify_srq", false},
		{&l.QuerySRQ, "ibv_query_srq", false}, {&l.DestroySRQ, "ibv_destroy_srq", false},
		{&l.CreateQP, "ibv_create_qp", false}, {&l.ModifyQP, "ibv_modify_qp", false},
		{&l.QueryQP, "ibv_query_qp", false}, {&l.DestroyQP, "ibv_destroy_qp", false},
		{&l.CreateAH, "ibv_create_ah", false}, {&l.DestroyAH, "ibv_destroy_ah", false},
		{&l.AttachMcast, "ibv_attach_mcast", false}, {&l.DetachMcast, "ibv_detach_mcast", false},
		{&l.GetAsyncEvent, "ibv_get_async_event", false}, {&l.AckAsyncEvent, "ibv_ack_async_event", false},
		{&l.errno, "__errno_location", false},
	} {
		if *f.at, err = purego.Dlsym(handle, f.name); err != nil && !f.optional {
			return nil, fmt.Errorf("%s is no libibverbs.so.1 of rdma-core: %w", path, err)
		}
	}
	loaded = l
	return l, nil
}

// Args are the arguments of a function that is called again and again, in memory that calls need not allocate:
// on the heap. Memory that they name is reachable from elsewhere, and does not move.
type Args struct {
	fn      uintptr
	A, B, C uintptr
	result  uintptr
}

// Call calls a function of C that returns an int or nothing: an errno, a number, or minus one. Arguments that
// are pointers, converted in the list of arguments, stay where they are until it returns.
//
//go:uintptrescapes
func Call(fn, a, b, c uintptr) int {
	r, _, _ := purego.SyscallN(fn, a, b, c)
	return int(int32(r))
}

// CallErrno calls a function of C that says in errno why it failed. A goroutine can change threads between
// two calls, so its thread is its own for that time. Arguments are as Call's.
//
//go:uintptrescapes
func (l *Library) CallErrno(fn uintptr, args ...uintptr) (r uintptr, errno syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	at, _, _ := purego.SyscallN(l.errno)
	p := Pointer[int32](at)
	*p = 0
	r, _, _ = purego.SyscallN(fn, args...)
	return r, syscall.Errno(*p)
}

// Pointer returns an address that C gave as a pointer. It is of memory that Go does not know.
func Pointer[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// Op returns an entry of a context's function table, by one of the constants Ctx…
func Op(context, offset uintptr) uintptr { return *Pointer[uintptr](context + offset) }

// Ext returns an entry of the table that precedes a context, by one of the constants Back…; 0: the library,
// or the driver, does not have it.
func Ext(context, back uintptr) uintptr {
	if *Pointer[uintptr](context + ctxABI) != ^uintptr(0) {
		return 0
	}
	if size := *Pointer[uintptr](context - BackSize); size < back+contextSize {
		return 0
	}
	return *Pointer[uintptr](context - back)
}

// Text returns a string of C of at most n bytes.
func Text(address uintptr, n int) string {
	b := unsafe.Slice(Pointer[byte](address), n)
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
