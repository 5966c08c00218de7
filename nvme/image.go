// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"bytes"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Image is a disk in memory that nobody changes, such as an image that many hosts start from. A target sends its blocks
// from there without a copy. Queues that have read it hold its memory until they end. A namespace of it is not
// Writable, and is Immediate.
type Image []byte

// ReadAt reads.
func (m Image) ReadAt(b []byte, off int64) (int, error) { return bytes.NewReader(m).ReadAt(b, off) }

// region returns the memory of an image, registered for this queue; nil: the disk is none, or the device does not
// register it, and it is read as any other disk.
func (q *queue) region(ns *namespace) *verbs.MR {
	if ns.image == nil {
		return nil
	}
	q.registering.Lock()
	defer q.registering.Unlock()
	mr, ok := q.images[ns]
	if !ok {
		var err error
		if mr, err = q.pd.RegMR(ns.image, 0); err != nil {
			q.t.log.Warn("an image in memory is not registered, and is copied", "namespace", ns.ID, "peer", q.peer,
				"error", err)
		}
		q.images[ns] = mr
	}
	return mr
}
