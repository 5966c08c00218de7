// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// Loop makes the link of a queue pair to itself, which has no socket: both sides have one half of a segment, so that
// the queue pair receives its own messages. It is not told of its own memory, and asks itself.
func (n *network) Loop() (memorydev.Link, error) {
	at := netip.AddrPortFrom(n.addr, 0)
	l := &link{net: n, from: at, to: at, slot: -1, hello: true}
	if err := l.loop(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *link) loop() (err error) {
	n := l.net
	if l.seg, err = shmem.Create("ramjet-link", partBytes, shmem.ReadWrite); err != nil {
		return err
	}
	l.own, l.theirs = l.seg.Bytes(), l.seg.Bytes()
	l.seg.Forget()
	if !n.takeSlot(l) {
		return errNoSlot
	}
	l.ring = uint32(l.slot)
	doorbell, err := unix.FcntlInt(uintptr(n.doorbellSeg.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.device, err = n.meet(doorbell)
	return err
}
