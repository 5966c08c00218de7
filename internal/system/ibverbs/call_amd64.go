// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ibverbs

import "unsafe"

// callThreeAddress is the address of callThree, in call_amd64.s.
var callThreeAddress uintptr

// runtimeCgocall switches to the system's stack and back, as calls by cgo do; purego has it the same way.
//
//go:linkname runtimeCgocall runtime.cgocall
func runtimeCgocall(fn uintptr, arg unsafe.Pointer) int32

// Call calls a function of C that returns an int. purego's own way copies room for 32 arguments thrice.
func (a *Args) Call(fn uintptr) int {
	a.fn = fn
	runtimeCgocall(callThreeAddress, unsafe.Pointer(a))
	return int(int32(a.result))
}
