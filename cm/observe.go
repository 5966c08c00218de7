// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// listedID is an id in its manager's list, and its index there.
type listedID struct {
	id    *ID
	index int
}

func (l *listedID) ListIndex() *int { return &l.index }

// lockTries is how often an observer tries to take the manager's lock, a millisecond apart. The holder may
// wait for the device, which a program can keep for as long as it likes.
const lockTries = 20

// observe lists the ids of the manager; see observe.ConnLister.
func (m *manager) observe(page []driver.ConnInfo, at int) (n, next int) {
	for tries := 0; !m.mu.TryLock(); tries++ {
		if tries == lockTries {
			return 0, observe.Busy
		}
		time.Sleep(time.Millisecond)
	}
	defer m.mu.Unlock() // not unlock: nothing has happened
	list, next := m.idList.Page(len(page), at)
	for i, l := range list {
		id := l.id
		page[i] = driver.ConnInfo{State: id.state.String(), PortSpace: id.ps.String(), Listening: id.state == listening,
			QPType: id.qpType, Local: id.local, Peer: id.peer}
		if id.state == failed {
			page[i].Failed = id.failure
		}
		if id.qp != nil {
			page[i].QPN, page[i].QPType = id.qp.Num(), id.qp.Type()
		}
	}
	return len(list), next
}
