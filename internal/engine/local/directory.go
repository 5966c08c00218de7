// SPDX-License-Identifier: Apache-2.0

package local

import (
	"sync/atomic"
)

// A directory has the regions that peers may use, with their access rights. It is a segment that its owner writes
// and peers have mapped [ReadOnly]: an array of entries, found by key with linear probing.
//
// A peer looks its rights up at each operation, and again when it is done. The withdrawal of an entry holds at
// once. For operations in progress see [Memory.Quiesce].
//
// An entry has a version, which is odd while it changes, and the words of [Entry].
type directory struct{ mem []byte }

// Entry describes a region that peers may use by themselves.
type Entry struct {
	Key     uint32
	Access  uint32 // bits of verbs.Access
	Segment uint64 // number of the segment that the region is at the start of; 0: it is in none
	Base    uint64 // address of the region's first byte, in work requests
	Length  uint64 // bytes
	Memory  uint64 // its address in the owner's process; 0: it is not told
}

const (
	entrySize = 64
	// probes is how many entries a key can be in.
	probes = 64

	atVersion = 0
	atKey     = 8 // key and access
	atSegment = 16
	atBase    = 24
	atLength  = 32
	atMemory  = 40
)

// DirectorySize returns how large a segment a directory of n entries needs.
func DirectorySize(n int) int { return n * entrySize }

func (d directory) len() int { return len(d.mem) / entrySize }

// slot returns the i-th entry that a key can be in.
func (d directory) slot(key uint32, i int) []byte {
	n := (int(key>>8) + i) % d.len()
	return d.mem[n*entrySize:][:entrySize]
}

// Publisher is the owner's end of a directory. Its calls are made one after the other.
type Publisher struct{ directory }

// NewPublisher returns the owner's end of a new directory.
func NewPublisher(mem []byte) *Publisher { return &Publisher{directory{mem}} }

// Publish adds an entry, whose key is not 0. It returns false if there is no room for it: peers
// will not find it.
func (p *Publisher) Publish(e Entry) bool {
	for i := range min(probes, p.len()) {
		s := p.slot(e.Key, i)
		if *word(s, atKey) == 0 {
			p.set(s, e)
			return true
		}
	}
	return false
}

// Withdraw removes the entry of a key.
func (p *Publisher) Withdraw(key uint32) {
	for i := range min(probes, p.len()) {
		if s := p.slot(key, i); uint32(*word(s, atKey)) == key {
			p.set(s, Entry{})
			return
		}
	}
}

func (p *Publisher) set(s []byte, e Entry) {
	version := word(s, atVersion)
	atomic.AddUint64(version, 1)
	atomic.StoreUint64(word(s, atKey), uint64(e.Access)<<32|uint64(e.Key))
	atomic.StoreUint64(word(s, atSegment), e.Segment)
	atomic.StoreUint64(word(s, atBase), e.Base)
	atomic.StoreUint64(word(s, atLength), e.Length)
	atomic.StoreUint64(word(s, atMemory), e.Memory)
	atomic.AddUint64(version, 1)
}

// Lookup is a peer's end of a directory.
type Lookup struct{ directory }

// NewLookup returns a peer's end of a directory.
func NewLookup(mem []byte) *Lookup { return &Lookup{directory{mem}} }

// Place is an entry that was found, and its version at that time.
type Place struct {
	version *uint64
	was     uint64
}

// Holds reports whether the entry is still there, unchanged.
func (p Place) Holds() bool { return p.version != nil && atomic.LoadUint64(p.version) == p.was }

// Find returns the entry of a key. It returns false if there is none, or if it is being changed at
// this moment: the operation goes to the owner, which may have stopped in the middle of a change.
func (l *Lookup) Find(key uint32) (Entry, Place, bool) {
	if key == 0 {
		return Entry{}, Place{}, false
	}
	for i := range min(probes, l.len()) {
		s := l.slot(key, i)
		version := atomic.LoadUint64(word(s, atVersion))
		named := atomic.LoadUint64(word(s, atKey))
		if uint32(named) != key {
			continue
		}
		e := Entry{Key: key, Access: uint32(named >> 32), Segment: atomic.LoadUint64(word(s, atSegment)),
			Base: atomic.LoadUint64(word(s, atBase)), Length: atomic.LoadUint64(word(s, atLength)),
			Memory: atomic.LoadUint64(word(s, atMemory))}
		at := Place{word(s, atVersion), version}
		return e, at, version%2 == 0 && at.Holds()
	}
	return Entry{}, Place{}, false
}

// Range returns where in the region n bytes from an address on are. It returns false if they are not
// in the region.
func (e *Entry) Range(addr, n uint64) (offset uint64, ok bool) {
	off := addr - e.Base
	if addr < e.Base || off > e.Length || n > e.Length-off {
		return 0, false
	}
	return off, true
}
