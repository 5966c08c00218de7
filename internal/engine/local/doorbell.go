// SPDX-License-Identifier: Apache-2.0

package local

import (
	"math/bits"
	"sync/atomic"
)

// A doorbell is how peers tell a device which of its connections to look at, so that a look costs the same
// however many there are. It is a segment of the device's, in which each connection has a slot:
//
//	0      not 0: the device's process sleeps, and is to be woken too
//	64     which words of the next part are not 0, a bit each
//	192    which connections have something, a bit each
type Doorbell struct {
	asleep *uint32
	words  []byte
	slots  []byte
}

const (
	// DoorbellSlots is how many connections a doorbell can tell apart.
	DoorbellSlots = 1 << 16

	atWords = 64
	atSlots = atWords + DoorbellSlots/64/64*8

	// DoorbellBytes is how large a segment a doorbell needs, in bytes.
	DoorbellBytes = atSlots + DoorbellSlots/8
)

// NewDoorbell returns the doorbell in a segment of [DoorbellBytes]. A new one is all zero.
func NewDoorbell(mem []byte) *Doorbell {
	return &Doorbell{asleep: half(mem, 0), words: mem[atWords:atSlots], slots: mem[atSlots:DoorbellBytes]}
}

// Ring tells the doorbell's owner to look at a connection. It returns true if the owner's process sleeps
// and is to be woken.
func (b *Doorbell) Ring(slot uint32) (wake bool) {
	slot %= DoorbellSlots
	atomic.OrUint64(word(b.slots, int(slot/64)*8), 1<<(slot%64))
	atomic.OrUint64(word(b.words, int(slot/4096)*8), 1<<(slot/64%64))
	return atomic.LoadUint32(b.asleep) != 0 && atomic.SwapUint32(b.asleep, 0) != 0
}

// Take calls f with the slots below limit that were rung since the last call.
func (b *Doorbell) Take(limit int, f func(slot int)) {
	for i := 0; i*4096 < limit; i++ {
		if atomic.LoadUint64(word(b.words, i*8)) == 0 {
			continue
		}
		for words := atomic.SwapUint64(word(b.words, i*8), 0); words != 0; words &= words - 1 {
			w := i*64 + bits.TrailingZeros64(words)
			for slots := atomic.SwapUint64(word(b.slots, w*8), 0); slots != 0; slots &= slots - 1 {
				if s := w*64 + bits.TrailingZeros64(slots); s < limit {
					f(s)
				}
			}
		}
	}
}

// Sleep says that the owner's process is about to sleep. It returns false if a slot below limit was
// rung meanwhile: then nothing has changed, as another thread of the process may sleep already.
func (b *Doorbell) Sleep(limit int) bool {
	slept := atomic.SwapUint32(b.asleep, 1) != 0
	for i := 0; i*4096 < limit; i++ {
		if atomic.LoadUint64(word(b.words, i*8)) != 0 {
			if !slept {
				b.Wake()
			}
			return false
		}
	}
	return true
}

// Wake says that the owner's process no longer sleeps.
func (b *Doorbell) Wake() { atomic.StoreUint32(b.asleep, 0) }

// Asleep returns the word that is 1 while the owner's process sleeps, or is about to. The process sleeps on this
// word (futex). A peer for which [Doorbell.Ring] returned true wakes it there.
func (b *Doorbell) Asleep() *uint32 { return b.asleep }
