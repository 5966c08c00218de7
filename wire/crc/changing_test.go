// SPDX-License-Identifier: Apache-2.0

//go:build !race

package crc

import (
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// The sum is the copy's, even if another goroutine writes into the source meanwhile.
func TestCopyOfWhatChanges(t *testing.T) { eachWidth(t, func(int) { testCopyOfWhatChanges(t) }) }

func testCopyOfWhatChanges(t *testing.T) {
	src, dst := testBytes(9000), make([]byte, 9000)
	done := make(chan struct{})
	var gone sync.WaitGroup
	gone.Go(func() {
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&src[0])), len(src)/8)
		for i := uint64(1); ; i++ {
			for j := range words {
				atomic.StoreUint64(&words[j], i)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := range 2000 {
		d := dst[:len(dst)-n%100]
		k := kinds[n/100%2]
		if got, want := k.copy(0, d, src[:len(d)]), crc32.Checksum(d, k.table); got != want {
			t.Errorf("%s, %d bytes: %08x, the copy's is %08x", k.name, len(d), got, want)
			break
		}
	}
	close(done)
	gone.Wait()
}
