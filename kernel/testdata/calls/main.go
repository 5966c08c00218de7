// SPDX-License-Identifier: Apache-2.0

// Command calls measures the cost of a call of C, by purego and by cgo, of functions in the shape of ibv_poll_cq and
// ibv_post_send that do next to nothing: they hand over completions, or walk a list.
//
//	CGO_ENABLED=1 go run ./kernel/testdata/calls
package main

/*
#include <infiniband/verbs.h>

static struct ibv_wc ready[64];
static int completions;

static int poll_stub(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (n > completions)
		n = completions;
	for (int i = 0; i < n; i++)
		wc[i] = ready[i];
	return n;
}

static int post_stub(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	static volatile uint64_t sum;
	for (; wr; wr = wr->next)
		sum += wr->wr_id;
	return 0;
}

static void *poll_address(void) { return poll_stub; }
static void *post_address(void) { return post_stub; }
static void set(int n) { completions = n; }
static int call_poll(void *wc, int n) { return poll_stub(0, n, wc); }
static int call_post(void *wr, void *bad) { return post_stub(0, wr, bad); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
)

const (
	rounds = 21
	calls  = 200_000
)

// measure returns the medians of functions, in nanoseconds a call, measured alternately.
func measure(fs ...func()) (medians []float64) {
	times := make([][]float64, len(fs))
	for range rounds {
		for i, f := range fs {
			start := time.Now()
			for range calls {
				f()
			}
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/calls)
		}
	}
	for i := range times {
		slices.Sort(times[i])
		medians = append(medians, times[i][rounds/2])
	}
	return medians
}

func main() {
	var pin runtime.Pinner
	defer pin.Unpin()
	wcs := make([]ibverbs.WC, 64)
	wrs := make([]ibverbs.SendWR, 16)
	bad := new(uint64)
	pin.Pin(&wcs[0])
	pin.Pin(&wrs[0])
	for i := range wrs[:15] {
		wrs[i].Next = uint64(uintptr(unsafe.Pointer(&wrs[i+1])))
	}
	args := new(ibverbs.Args)
	fmt.Println("ns a call             kernel  purego    cgo")
	row := func(name string, own, plain, cgo func()) {
		m := measure(own, plain, cgo)
		fmt.Printf("%-20s %7.1f %7.1f %6.1f\n", name, m[0], m[1], m[2])
	}
	poll := uintptr(C.poll_address())
	for _, n := range []int{0, 1, 16} {
		C.set(C.int(n))
		row(fmt.Sprintf("poll of %d", n), func() {
			*args = ibverbs.Args{A: 0, B: 16, C: uintptr(unsafe.Pointer(&wcs[0]))}
			args.Call(poll)
		}, func() { ibverbs.Call(poll, 0, 16, uintptr(unsafe.Pointer(&wcs[0]))) },
			func() { C.call_poll(unsafe.Pointer(&wcs[0]), 16) })
	}
	post := uintptr(C.post_address())
	for _, n := range []int{1, 16} {
		next := wrs[n-1].Next
		wrs[n-1].Next = 0
		row(fmt.Sprintf("post of %d", n), func() {
			*args = ibverbs.Args{A: 0, B: uintptr(unsafe.Pointer(&wrs[0])), C: uintptr(unsafe.Pointer(bad))}
			args.Call(post)
		}, func() { ibverbs.Call(post, 0, uintptr(unsafe.Pointer(&wrs[0])), uintptr(unsafe.Pointer(bad))) },
			func() { C.call_post(unsafe.Pointer(&wrs[0]), unsafe.Pointer(bad)) })
		wrs[n-1].Next = next
	}
}
