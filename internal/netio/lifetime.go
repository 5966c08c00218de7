// SPDX-License-Identifier: Apache-2.0

package netio

import "sync/atomic"

// lifetime keeps file descriptors open while calls use them: a descriptor
// closed under a running call could already be somebody else's file. It costs
// two uncontended atomic additions a call.
type lifetime struct {
	users atomic.Int64 // calls under way, plus closing
}

// closing is larger than any number of calls under way.
const closing = 1 << 32

// enter begins a call. It returns false on a closed object; leave must then
// not be called.
func (l *lifetime) enter() bool {
	if l.users.Add(1) < closing {
		return true
	}
	l.users.Add(-1)
	return false
}

// leave ends a call and tells whether it was the last one on a closed object:
// then the caller has to free it.
func (l *lifetime) leave() bool { return l.users.Add(-1) == closing }

// end marks the object as closed. It returns whether this call did it, and in
// that case it counts as a call under way, to be ended by leave.
func (l *lifetime) end() bool {
	for {
		n := l.users.Load()
		if n >= closing {
			return false
		}
		if l.users.CompareAndSwap(n, n+closing+1) {
			return true
		}
	}
}
