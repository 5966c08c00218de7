// SPDX-License-Identifier: Apache-2.0

//go:build unix

package memory

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// The litmus tests of the orders that [Put], [Order] and [Fence] keep. They run with two threads on memory that the
// race detector does not know, as peers do. Processors reorder seldom: a pass says little about a processor that
// reorders much, and nothing under an emulator on a processor that does not.

const litmusRounds = 20_000

// litmusMemory is memory outside the heap.
func litmusMemory(t *testing.T, n int) []byte {
	t.Helper()
	b, unmap, err := allocate(n, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unmap)
	return b
}

func wordAt(b []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&b[at])) }

// await waits until a word has a value, and reports whether it has before the other side has ended.
func await(p *uint64, v uint64, ended *atomic.Bool) bool {
	for n := 0; atomic.LoadUint64(p) != v; n++ {
		if ended.Load() {
			return atomic.LoadUint64(p) == v
		}
		if n%64 == 63 {
			runtime.Gosched()
		}
	}
	return true
}

// meet waits until the other thread has come as far.
func meet(other *atomic.Uint64, r uint64) {
	for n := 0; other.Load() < r; n++ {
		if n%1024 == 1023 {
			runtime.Gosched()
		}
	}
}

// TestPutWhole writes 1 to 8 bytes in all places of a word, while another thread writes to the bytes beside them: both
// are seen as a whole, and none is lost.
func TestPutWhole(t *testing.T) {
	mem := litmusMemory(t, 64)
	for n := 1; n <= wordBytes; n++ {
		for off := 0; off+n <= wordBytes; off++ {
			clear(mem)
			word := wordAt(mem, 8)
			var ended atomic.Bool
			var started atomic.Uint64
			var threads sync.WaitGroup
			beside := (off + n) % wordBytes // a byte that is not written
			threads.Go(func() {
				defer ended.Store(true)
				src := make([]byte, n)
				meet(&started, 1)
				for i := range litmusRounds / 4 {
					for k := range src {
						src[k] = byte(i)
					}
					Put(mem[8+off:][:n], src)
					if n < wordBytes {
						if got := mem[8+beside]; got != byte(i) {
							t.Errorf("%d bytes at %d: the byte beside them is %d, not %d", n, off, got, byte(i))
							return
						}
						mem[8+beside] = byte(i + 1)
					}
				}
			})
			threads.Go(func() {
				started.Store(1)
				for !ended.Load() {
					var b [wordBytes]byte
					binary.NativeEndian.PutUint64(b[:], atomic.LoadUint64(word))
					for _, v := range b[off:][:n] {
						if v != b[off] {
							t.Errorf("%d bytes at %d are seen in pieces: %v", n, off, b)
							return
						}
					}
				}
			})
			threads.Wait()
		}
	}
}

// TestPutBeside has two threads write 3 and 5 bytes of one word: neither undoes the other's writes.
func TestPutBeside(t *testing.T) {
	mem := litmusMemory(t, 8)
	var threads sync.WaitGroup
	for _, part := range [][]byte{mem[:3], mem[3:]} {
		threads.Go(func() {
			for i := range litmusRounds {
				src := bytes.Repeat([]byte{byte(i)}, len(part))
				Put(part, src)
				if !bytes.Equal(part, src) {
					t.Errorf("%v is there, and %v was written", part, src)
					return
				}
			}
		})
	}
	threads.Wait()
}

// TestPutOrder writes a long piece, and then a short one of each length (message passing): a reader that sees the short
// one sees the long one.
func TestPutOrder(t *testing.T) {
	const long, at = 1000, 2048
	mem := litmusMemory(t, 4096)
	for n := 1; n <= wordBytes; n++ {
		clear(mem)
		flag, taken := wordAt(mem, at), wordAt(mem, at+512)
		var ended atomic.Bool
		var threads sync.WaitGroup
		threads.Go(func() {
			defer ended.Store(true)
			src := make([]byte, long)
			for i := uint64(1); i <= litmusRounds/wordBytes; i++ {
				for k := range src {
					src[k] = byte(i)
				}
				Put(mem[:long], src)
				var b [wordBytes]byte
				binary.LittleEndian.PutUint64(b[:], i%251+1)
				Put(mem[at:][:n], b[:n])
				if !await(taken, i, &ended) {
					return
				}
			}
		})
		threads.Go(func() {
			defer ended.Store(true)
			for i := uint64(1); i <= litmusRounds/wordBytes; i++ {
				var b [wordBytes]byte
				binary.LittleEndian.PutUint64(b[:], i%251+1)
				if !await(flag, binary.NativeEndian.Uint64(b[:]), &ended) {
					return
				}
				Order()
				for k, v := range mem[:long] {
					if v != byte(i) {
						t.Errorf("a flag of %d bytes is seen before byte %d of what was written earlier", n, k)
						return
					}
				}
				Order()
				atomic.StoreUint64(taken, i)
			}
		})
		threads.Wait()
	}
}

// TestFence has two threads each write a word and then read the other's (store buffering): one of them sees the
// other's.
func TestFence(t *testing.T) {
	mem := litmusMemory(t, 1024)
	var words, seen [2]*uint64
	for i := range words {
		words[i], seen[i] = wordAt(mem, i*128), wordAt(mem, 512+i*128)
	}
	var came, done [2]atomic.Uint64
	missed := 0
	var threads sync.WaitGroup
	for i := range words {
		threads.Go(func() {
			var b [wordBytes]byte
			for r := uint64(1); r <= litmusRounds; r++ {
				binary.NativeEndian.PutUint64(b[:], r)
				came[i].Store(r)
				meet(&came[1-i], r)
				Put(mem[i*128:][:wordBytes], b[:])
				Fence()
				*seen[i] = *words[1-i]
				done[i].Store(r)
				meet(&done[1-i], r)
				if i == 0 && *seen[0] != r && *seen[1] != r {
					missed++
				}
			}
		})
	}
	threads.Wait()
	if missed > 0 {
		t.Errorf("both have missed what the other wrote in %d of %d rounds", missed, litmusRounds)
	}
}
