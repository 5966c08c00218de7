// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"bytes"
	"sync"
)

// Buffer keeps the text that goroutines and programs write, and may be read meanwhile.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds bytes.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
