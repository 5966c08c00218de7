// SPDX-License-Identifier: Apache-2.0

package memory

import "runtime/debug"

// Memory that Go does not own (see verbs.External) may be unmapped under a region: by a C
// program, or because a mapped file is truncated. Nothing is pinned, so touching it then faults.
// That must be an error of the work request and not the end of the program, which these functions
// take care of. A call costs about 15 ns.

// pageSize is the smallest page size of any system.
const pageSize = 4096

// Copy is copy for slices of one length. It returns false if memory of one of them is not mapped.
func Copy(dst, src []byte) (ok bool) {
	defer Recover(debug.SetPanicOnFault(true), &ok)
	move(dst, src)
	return true
}

// present reports whether all of b can be read, by reading a byte of each page.
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
// makes a function that touches unmapped memory return with ok false. The function sets ok when it
// is done. Other panics continue.
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
