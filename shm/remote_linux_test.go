// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// TestSegmentOfTwoNumbers has a peer name one segment by many numbers, to have this side keep an entry for
// each: the second one ends the link.
func TestSegmentOfTwoNumbers(t *testing.T) {
	a, b := newEnds(t)
	s, err := shmem.Create("rogue", 4096, shmem.ReadWrite)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	for number := range uint64(100) {
		m := message{kind: messageSegment, segment: number + 1}
		if err := b.sock.Send(m.append(nil), s.FD()); err != nil {
			break // the other side has ended the link, or reads later
		}
		a.look()
	}
	for range 100 {
		a.look()
	}
	if len(a.segments) > 1 || !a.Ended() {
		t.Errorf("%d entries for one segment; ended: %v", len(a.segments), a.Ended())
	}
}

// TestShareOfMappings has one peer offer as many segments as it likes: it leaves room to others.
func TestShareOfMappings(t *testing.T) {
	for _, c := range []struct {
		mapped, of, bytes, ofBytes, more int
		want                             bool
	}{
		{0, 0, 0, 0, 4096, true},
		{maxMapped / 2, maxMapped/2 - 1, 0, 0, 4096, true},
		{maxMapped / 2, maxMapped / 2, 0, 0, 4096, false}, // it has half
		{maxMapped / 2, 0, 0, 0, 4096, true},
		{maxMapped, 0, 0, 0, 4096, false},
		{9, 9, maxMappedBytes / 2, maxMappedBytes/2 - 4096, 4096, true},
		{9, 9, maxMappedBytes / 2, maxMappedBytes / 2, 4096, false},
	} {
		n := &network{mapped: make(map[shmem.Inode]*mapping), mappedBytes: c.bytes}
		for i := range c.mapped {
			n.mapped[shmem.Inode{Number: uint64(i)}] = nil
		}
		r := &remote{segments: make(map[uint64]*mapping), bytes: c.ofBytes}
		for i := range c.of {
			r.segments[uint64(i)] = nil
		}
		if got := r.takesMore(n, c.more); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
