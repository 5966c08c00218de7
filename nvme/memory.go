// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"io"
	"sync"
)

// Memory is a disk in memory, of the length of its bytes.
type Memory struct {
	mu sync.RWMutex
	b  []byte
}

// NewMemory returns a disk of zeros.
func NewMemory(size int) *Memory { return &Memory{b: make([]byte, size)} }

// ReadAt reads.
func (m *Memory) ReadAt(b []byte, off int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if off < 0 || off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(b, m.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes.
func (m *Memory) WriteAt(b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off >= int64(len(m.b)) {
		return 0, io.ErrShortWrite
	}
	n := copy(m.b[off:], b)
	if n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// WriteZeroes writes n zeros.
func (m *Memory) WriteZeroes(off, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || n < 0 || off > int64(len(m.b)) || n > int64(len(m.b))-off {
		return io.ErrShortWrite
	}
	clear(m.b[off : off+n])
	return nil
}

// Deallocate makes a part read as zeros.
func (m *Memory) Deallocate(off, n int64) error { return m.WriteZeroes(off, n) }
