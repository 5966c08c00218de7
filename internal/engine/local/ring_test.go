// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

const patience = 2 * time.Minute

// TestRing sends messages of all lengths from one goroutine to another, which sleep whenever there is
// nothing to do.
func TestRing(t *testing.T) {
	const capacity, messages = 1024, 20000
	mem := make([]byte, RingSize(capacity))
	s, err := NewSender(mem, capacity)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReceiver(mem, capacity)
	if err != nil {
		t.Fatal(err)
	}
	message, room := make(chan struct{}, 1), make(chan struct{}, 1)
	ring := func(doorbell chan struct{}, wake bool) {
		if wake {
			select {
			case doorbell <- struct{}{}:
			default:
			}
		}
	}
	awake := func(doorbell chan struct{}, what string) {
		select {
		case <-doorbell:
		case <-time.After(patience):
			panic(what + " sleeps for ever") // the other goroutine would wait as long
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	lengths := make([]int, messages)
	for i := range lengths {
		lengths[i] = random.IntN(s.MaxMessage() + 1)
		if i%3 == 0 {
			lengths[i] %= 32
		}
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		for i, n := range lengths {
			for {
				b, err := s.Reserve(n, uint32(i))
				if err != nil {
					panic(err)
				}
				if b != nil {
					for j := range b {
						b[j] = byte(i + j)
					}
					ring(message, s.Publish())
					break
				}
				if s.Sleep() {
					awake(room, "the sender")
				}
			}
		}
	})
	for i := 0; i < messages; {
		b, kind, ok, err := r.Peek()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			ring(room, r.Return())
			if r.Sleep() {
				awake(message, "the receiver")
			}
			continue
		}
		if kind != uint32(i) || len(b) != lengths[i] {
			t.Fatalf("message %d has kind %d and %d bytes, not %d", i, kind, len(b), lengths[i])
		}
		for j := range b {
			if b[j] != byte(i+j) {
				t.Fatalf("byte %d of message %d is %d", j, i, b[j])
			}
		}
		ring(room, r.Release())
		i++
	}
	sender.Wait()
}

// FuzzRing has a peer write anything to a ring: both ends stay within it, and find an end.
func FuzzRing(f *testing.F) {
	f.Add(uint64(0), []byte{})
	f.Add(uint64(0), []byte{0})
	const capacity = 64
	f.Add(uint64(8), []byte{0, 0, 0, 0xc0})
	f.Add(uint64(64), []byte{0xff, 0xff, 0xff, 0x7f})
	f.Add(uint64(0), []byte{8, 0, 0, 0x40, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0xc0})
	f.Add(uint64(1<<63), []byte{})
	f.Fuzz(func(t *testing.T, at uint64, data []byte) {
		mem := make([]byte, RingSize(capacity))
		binary.NativeEndian.PutUint64(mem, at)
		binary.NativeEndian.PutUint64(mem[128:], at)
		copy(mem[ringHeader:], data)
		r, err := NewReceiver(mem, capacity)
		if err != nil {
			t.Fatal(err)
		}
		for range capacity {
			if _, _, ok, err := r.Peek(); !ok || err != nil {
				break
			}
			r.Release()
		}
		s, err := NewSender(mem, capacity)
		if err != nil {
			t.Fatal(err)
		}
		for range capacity {
			if b, err := s.Reserve(8, 0); b == nil || err != nil {
				break
			}
			s.Publish()
		}
	})
}
