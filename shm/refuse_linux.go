// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// limitOf returns which limit an error is about; false: it is about none, but the peer's doing.
func limitOf(err error) (limit, bool) {
	switch {
	case errors.Is(err, mappings.ErrFull):
		return limitMappings, true
	case errors.Is(err, shmem.ErrDescriptors), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return limitDescriptors, true
	case errors.Is(err, errNoSlot):
		return limitConnections, true
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return limitMemory, true
	}
	return 0, false
}

// refuse tells both sides that this one has no room for a link that the peer has dialed: the peer, and the listener.
// It returns false.
func (l *link) refuse(err error) bool {
	if limit, ok := limitOf(err); ok && l.greets != nil {
		l.greets.failed = err
		m := message{kind: messageRefused, limit: limit}
		l.sock.Send(m.append(nil)) // fails if the peer has ended
	}
	return false
}
