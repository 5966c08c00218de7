// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Lock takes the locks of all lanes, in their order. What they have in common (objects, keys, ports) is changed
// under all of them, and looked up under any.
func (d *Device) Lock() {
	for _, l := range d.Lanes {
		l.Mu.Lock()
	}
}

// Unlock releases the locks of all lanes.
func (d *Device) Unlock() {
	for _, l := range slices.Backward(d.Lanes) {
		l.Mu.Unlock()
	}
}

// needsOneLane returns the error of an operation that a device with several lanes does not have.
func (d *Device) needsOneLane(op string) error {
	if len(d.Lanes) == 1 {
		return nil
	}
	return &verbs.OpError{Op: op, Err: verbs.ErrNotSupported, Detail: fmt.Sprintf(
		"the device has %d lanes: open it with one", len(d.Lanes))}
}

// sleepInLoops leaves all waiting to the goroutines of the lanes: a program waits at one socket.
func (d *Device) sleepInLoops() {
	for _, l := range d.Lanes {
		l.dozer, l.pollWaiter = nil, nil
	}
}
