// SPDX-License-Identifier: Apache-2.0

package memory

import "runtime/debug"

// Memory of others than Go (see verbs.PD.RegExternal) may vanish under a region: a C program
// unmaps it, a mapped file is truncated. Nothing is pinned, so touching it faults then, which
// must be an error of the work request and not the end of the program. That is what these
// functions are for; a call costs some 15 ns.

// pageSize is the smallest there is.
const pageSize = 4096

// Copy is copy for slices of one length; false: memory of one of them is not there.
func Copy(dst, src []byte) (ok bool) {
	defer Recover(debug.SetPanicOnFault(true), &ok)
	copy(dst, src)
	return true
}

// present says whether all of b can be read, by reading a byte of each page.
func present(b []byte) (ok bool) {
	if len(b) == 0 {
		return true
	}
	defer Recover(debug.SetPanicOnFault(true), &ok)
	var sum byte
	for i := 0; i < len(b); i += pageSize {
		sum |= b[i]
	}
	sum |= b[len(b)-1]
	touched(sum)
	return true
}

//go:noinline
func touched(byte) {}

// Recover, deferred as
//
//	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
//
// makes a function that touches memory which is not there return with ok false; it sets ok
// when it is done. Other panics go on.
func Recover(old bool, ok *bool) {
	debug.SetPanicOnFault(old)
	if *ok {
		return
	}
	if r := recover(); r != nil {
		if _, fault := r.(interface{ Addr() uintptr }); !fault {
			panic(r)
		}
	}
}
