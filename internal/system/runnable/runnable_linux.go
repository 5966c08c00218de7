// SPDX-License-Identifier: Apache-2.0

package runnable

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// every is how often the system is asked, which takes about a microsecond.
const every = time.Millisecond

var machine struct {
	next    atomic.Int64 // nanoseconds since start: when to ask
	crowded atomic.Bool

	mu         sync.Mutex
	opened     bool
	fd         int // of /proc/loadavg; -1: the system does not say
	processors int
	crowd      crowd
}

var start = time.Now()

// Crowded reports whether far more threads want to run than there are processors. It never blocks, and is cheap:
// the system is asked once in a millisecond. Where it does not say it returns false.
func Crowded() bool {
	m := &machine
	now := int64(time.Since(start))
	if next := m.next.Load(); now >= next && m.next.CompareAndSwap(next, now+int64(every)) && m.mu.TryLock() {
		m.crowded.Store(ask())
		m.mu.Unlock()
	}
	return m.crowded.Load()
}

// ask takes a sample. mu is held.
func ask() bool {
	m := &machine
	if !m.opened {
		m.opened = true
		m.processors = runtime.NumCPU()
		if text, err := os.ReadFile("/sys/devices/system/cpu/online"); err == nil {
			if n, ok := parseProcessors(string(text)); ok {
				m.processors = n
			}
		}
		m.fd = -1
		if fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			m.fd = fd
		}
	}
	if m.fd < 0 {
		return false
	}
	var text [64]byte
	// The file is always ready: Go's scheduler need not hear of it.
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREAD64, uintptr(m.fd), uintptr(unsafe.Pointer(&text)),
		unsafe.Sizeof(text), 0, 0, 0)
	if errno != 0 {
		return false
	}
	threads, ok := parseLoad(text[:n])
	return ok && m.crowd.take(threads, m.processors)
}
