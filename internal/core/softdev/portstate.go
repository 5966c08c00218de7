// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// PortState is the state of a port or network. The device's lock is not held.
type PortState interface {
	// Ports returns how many ports there are. They are numbered from 1.
	Ports() int
	// Info returns the current state of a port.
	Info(port int) PortInfo
	// Follow calls changed, from another goroutine and until the port is closed, after each change of
	// a port's Info, with the events for it, mostly one.
	Follow(changed func(port int, events ...verbs.EventType))
}

// PortInfo is the state of a port. Its tables are not modified.
type PortInfo struct {
	verbs.PortAttr                  // without the parts that the tables and the device have
	GIDTable       []verbs.GIDEntry // the rows that are not empty
	PKeyTable      []verbs.PKey     // of one length always; 0: nothing is in the row
}

// ErrAgain means that a port cannot take or give more now: try again when it is ready.
var ErrAgain = errors.New("port is full for now")

// OnePartition is the partition table of a port that knows the default partition only, as on Ethernet
// (IBTA annex A16).
var OnePartition = []verbs.PKey{ib.DefaultPKey}

// Locator is a port that may have to resolve the addresses of peers first.
type Locator interface {
	// Locate resolves a GID, unless the port knows it already, or returns why it cannot. It takes seconds at most. The
	// device's lock is not held. Packets to a GID that is not resolved are lost.
	Locate(ctx context.Context, gid verbs.GID) error
}

// locate resolves a GID if the port is a [Locator].
func locate(port any, gid verbs.GID) error {
	if l, ok := port.(Locator); ok {
		return l.Locate(context.Background(), gid)
	}
	return nil
}
