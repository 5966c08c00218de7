// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// closedPeer is the peer of a closed link that is still at work in memory of this process. Regions that end
// wait for it; the end of the link does not, which would wait under the device's lock.
type closedPeer struct {
	net  *network
	peer *local.Peer // nil: it has finished
	sock *shmem.Socket
	seg  *shmem.Segment // of the link
}

// maxLeaving is how many closed peers are kept in view.
const maxLeaving = 1024

// leave hands the socket and the segment, which tell of the peer's work, to a [closedPeer].
func (l *link) leave() {
	n := l.net
	if n.reap(); len(n.leaving) >= maxLeaving {
		i := surplus(n.leaving)
		n.leaving[i].release()
		n.leaving = slices.Delete(n.leaving, i, i+1)
	}
	l.left = &closedPeer{net: n, peer: l.peer, sock: l.sock, seg: l.seg}
	n.leaving = append(n.leaving, l.left)
	n.owners[int32(l.sock.FD())] = l.left
	// only the peer's end; fails if it has ended
	unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, l.sock.FD(), &unix.EpollEvent{Fd: int32(l.sock.FD())})
	l.sock, l.seg = nil, nil
}

// surplus returns which closed peer gives way to another: the first of the process that has most, so that no process
// drives out the peers of others.
func surplus(all []*closedPeer) (first int) {
	count := make(map[int]int)
	for i, v := range slices.Backward(all) {
		pid := v.sock.PID()
		if count[pid]++; count[pid] >= count[all[first].sock.PID()] {
			first = i
		}
	}
	return first
}

// ready drops a closed peer whose process has closed its end: it does so after its work, or has ended.
func (v *closedPeer) ready(func(owner any, read, write bool)) int {
	v.net.leaving = slices.DeleteFunc(v.net.leaving, func(o *closedPeer) bool { return o == v })
	v.release()
	return 0
}

// Work returns a number that is odd while the peer is at work in memory of this process.
func (v *closedPeer) Work() uint32 {
	if v.peer == nil {
		return 0
	}
	n := v.peer.Work()
	if n%2 == 1 && v.sock.Gone() {
		return 0
	}
	return n
}

func (v *closedPeer) release() {
	if v.peer != nil {
		v.net.unfollow(v.sock.FD())
		v.sock.Close()
		v.seg.Close()
		v.peer = nil
	}
}

// reap drops the closed peers that have finished.
func (n *network) reap() {
	n.leaving = slices.DeleteFunc(n.leaving, func(v *closedPeer) bool {
		if v.Work()%2 == 1 {
			return false
		}
		v.release()
		return true
	})
}

// Leaving calls f with the peers that are at work although their links were closed.
func (n *network) Leaving(f func(softdev.Worker)) {
	n.reap()
	for _, v := range n.leaving {
		f(v)
	}
}
