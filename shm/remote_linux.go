// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// maxMapped is how many segments of peers a device has mapped at most; the system has a limit too
// (vm.max_map_count). Accesses to other segments go through the peer.
const maxMapped = 1 << 14

// maxMappedBytes is how much memory of peers a device has mapped at most: half of the addresses that a
// process has, on 32-bit systems a quarter. Segments may be larger than the memory that there is.
const maxMappedBytes = 1 << (30 + 16*(^uint(0)>>63))

// device is a peer's device: the doorbell that wakes it. Its links share it.
type device struct {
	id       shmem.Inode // nothing else has it as long as the doorbell is mapped
	seg      *shmem.Segment
	doorbell *local.Doorbell
	links    int
}

// meet takes the doorbell of a peer's device.
func (n *network) meet(doorbell int) (*device, error) {
	id, err := shmem.InodeOf(doorbell)
	if err != nil {
		unix.Close(doorbell)
		return nil, err
	}
	if d := n.devices[id]; d != nil {
		unix.Close(doorbell)
		d.links++
		return d, nil
	}
	seg, err := shmem.Map(doorbell, local.DoorbellBytes, local.DoorbellBytes, shmem.ReadWrite)
	if err != nil {
		return nil, err
	}
	d := &device{id: id, seg: seg, doorbell: local.NewDoorbell(seg.Bytes()), links: 1}
	n.devices[id] = d
	return d, nil
}

// leave ends a link's use of a device.
func (n *network) leave(d *device) {
	if d.links--; d.links == 0 {
		delete(n.devices, d.id)
		d.seg.Close()
	}
}

// mapping is memory of a peer that is mapped here. Links of one domain share it.
type mapping struct {
	id       shmem.Inode
	seg      *shmem.Segment
	writable bool
	links    int
}

// attach maps memory of a peer, and takes over the descriptor. nil: it cannot be mapped.
func (n *network) attach(fd, least int, writable bool) *mapping {
	id, err := shmem.InodeOf(fd)
	if m := n.mapped[id]; err == nil && m != nil {
		unix.Close(fd)
		m.links++
		return m
	}
	if err != nil || len(n.mapped) >= maxMapped {
		unix.Close(fd)
		return nil
	}
	rights := shmem.ReadOnly
	if writable && shmem.Writable(fd) {
		rights = shmem.ReadWrite
	}
	seg, err := shmem.Map(fd, least, maxMappedBytes-n.mappedBytes, rights)
	if err != nil {
		return nil
	}
	m := &mapping{id: id, seg: seg, writable: rights == shmem.ReadWrite, links: 1}
	n.mapped[id] = m
	n.mappedBytes += len(seg.Bytes())
	return m
}

// detach ends a link's use of memory.
func (n *network) detach(m *mapping) {
	if m.links--; m.links == 0 {
		delete(n.mapped, m.id)
		n.mappedBytes -= len(m.seg.Bytes())
		m.seg.Close()
	}
}

// remote is the peer's memory, as the peer of a link has described it.
type remote struct {
	dir        *mapping
	lookup     *local.Lookup
	segments   map[uint64]*mapping
	named      map[*mapping]struct{} // the mappings of segments: a segment has one number
	bytes      int                   // of segments
	generation uint64
}

// takesMore reports whether a link's peer may have n bytes more mapped. One has at most as many segments, and bytes,
// as are free: so a first one leaves half of them to others, two leave a third.
func (r *remote) takesMore(net *network, n int) bool {
	return len(r.segments) < maxMapped-len(net.mapped) && r.bytes+n <= maxMappedBytes-net.mappedBytes
}

func (r *remote) takeDirectory(n *network, fd int) bool {
	if r.dir != nil {
		unix.Close(fd)
		return false
	}
	if r.dir = n.attach(fd, local.DirectorySize(1), false); r.dir != nil {
		r.lookup = local.NewLookup(r.dir.seg.Bytes())
	}
	return true // without it the peer is asked
}

func (r *remote) takeSegment(n *network, number uint64, fd int) bool {
	if r.segments[number] != nil {
		unix.Close(fd)
		return false
	}
	m := n.attach(fd, 1, true)
	if m == nil {
		return true // accesses to it go through the peer
	}
	if _, again := r.named[m]; again {
		n.detach(m)
		return false
	}
	if !r.takesMore(n, len(m.seg.Bytes())) {
		n.detach(m)
		return true
	}
	if r.segments == nil {
		r.segments, r.named = make(map[uint64]*mapping), make(map[*mapping]struct{})
	}
	r.segments[number], r.named[m] = m, struct{}{}
	r.bytes += len(m.seg.Bytes())
	r.generation++ // it may have been looked for
	return true
}

func (r *remote) drop(n *network, number uint64) {
	if m := r.segments[number]; m != nil {
		r.generation++
		r.bytes -= len(m.seg.Bytes())
		delete(r.segments, number)
		delete(r.named, m)
		n.detach(m)
	}
}

func (r *remote) end(n *network) {
	for number := range r.segments {
		r.drop(n, number)
	}
	if r.dir != nil {
		n.detach(r.dir)
	}
	*r = remote{}
}
