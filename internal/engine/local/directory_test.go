// SPDX-License-Identifier: Apache-2.0

package local

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDirectory changes an entry while a peer looks it up: it never sees half of one.
func TestDirectory(t *testing.T) {
	const entries = 16
	mem := words(DirectorySize(entries))
	p, l := NewPublisher(mem), NewLookup(mem)
	for i := range uint32(entries) { // all hash to the same place
		if !p.Publish(Entry{Key: 0x500 + i, Base: uint64(i), Length: 1}) {
			t.Fatalf("no room for entry %d", i)
		}
	}
	if p.Publish(Entry{Key: 0x600}) {
		t.Error("a full directory takes one more")
	}
	for i := range uint32(entries) {
		if e, _, ok := l.Find(0x500 + i); !ok || e.Base != uint64(i) {
			t.Errorf("entry %d is %v, %v", i, e, ok)
		}
	}
	p.Withdraw(0x503)
	if e, _, ok := l.Find(0x503); ok {
		t.Errorf("an entry that was withdrawn: %v", e)
	}
	var stop atomic.Bool
	var owner sync.WaitGroup
	owner.Go(func() {
		for n := uint64(1); !stop.Load(); n++ {
			p.Publish(Entry{Key: 0x700, Access: uint32(n), Segment: n, Base: n, Length: n})
			p.Withdraw(0x700)
		}
	})
	found := 0
	for start := time.Now(); found < 1000 && time.Since(start) < patience; {
		e, _, ok := l.Find(0x700)
		if !ok {
			continue
		}
		found++
		if e.Segment != e.Base || e.Base != e.Length || e.Access != uint32(e.Base) {
			t.Errorf("half of an entry: %+v", e)
		}
	}
	stop.Store(true)
	owner.Wait()
	if found == 0 {
		t.Error("the entry was never found")
	}
}

// TestPlace finds an entry once, and hears that it has changed.
func TestPlace(t *testing.T) {
	mem := words(DirectorySize(4))
	p, l := NewPublisher(mem), NewLookup(mem)
	if (Place{}).Holds() {
		t.Error("no place holds an entry")
	}
	p.Publish(Entry{Key: 0x100, Length: 1})
	_, at, ok := l.Find(0x100)
	if !ok || !at.Holds() {
		t.Fatal("the entry is not there")
	}
	p.Withdraw(0x100)
	if at.Holds() {
		t.Error("an entry that was withdrawn is still there")
	}
	p.Publish(Entry{Key: 0x100, Length: 2})
	if at.Holds() {
		t.Error("another entry passes for the one that was there")
	}
}

func TestRange(t *testing.T) {
	e := Entry{Base: 1000, Length: 100}
	for _, c := range []struct {
		addr, n uint64
		off     uint64
		ok      bool
	}{{1000, 100, 0, true}, {1100, 0, 100, true}, {1099, 1, 99, true}, {1099, 2, 0, false}, {999, 1, 0, false},
		{1001, 1<<64 - 1, 0, false}} {
		if off, ok := e.Range(c.addr, c.n); off != c.off || ok != c.ok {
			t.Errorf("%+v: %d, %v", c, off, ok)
		}
	}
}

// TestDoorbell rings all slots from several goroutines while the owner takes them: none is lost.
func TestDoorbell(t *testing.T) {
	const ringers, slots = 4, 10000
	b := NewDoorbell(words(DoorbellBytes))
	var rung sync.WaitGroup
	for r := range ringers {
		rung.Go(func() {
			for s := r; s < slots; s += ringers {
				b.Ring(uint32(s))
			}
		})
	}
	seen := make([]bool, slots)
	missing := slots
	for start := time.Now(); missing > 0 && time.Since(start) < patience; {
		b.Take(slots, func(s int) {
			if seen[s] {
				t.Errorf("slot %d was rung twice", s)
			}
			seen[s] = true
			missing--
		})
	}
	rung.Wait()
	if missing > 0 {
		t.Errorf("%d slots were not taken", missing)
	}
	if b.Ring(5) {
		t.Error("an owner that is awake is to be woken")
	}
	if b.Sleep(slots) {
		t.Error("the owner may sleep although a slot was rung")
	}
	b.Take(slots, func(int) {})
	if !b.Sleep(slots) || !b.Ring(7) || b.Ring(8) {
		t.Error("an owner that sleeps is to be woken once")
	}
	b.Wake()
	b.Ring(DoorbellSlots - 1)
	b.Take(slots, func(s int) {
		if s >= slots {
			t.Errorf("slot %d is beyond the limit", s)
		}
	})
}
