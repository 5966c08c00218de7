// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
)

// maxLanes is how many lanes a device has at most: each takes a slot of its address.
const maxLanes = 8

// withLanes returns the ports of a device with so many lanes, of which p is the first: each is a member of the group
// that has the address, as if it were another process, but they share the descriptors of the group. If it fails it
// closes all.
func (p *port) withLanes(lanes int) (ports []packetdev.Port, err error) {
	ports = append(ports, p)
	for len(ports) < lanes {
		next := &port{local: p.local, link: p.link, trace: p.trace}
		if err = next.joinBeside(p); err != nil {
			break
		}
		next.init()
		ports = append(ports, next)
	}
	if err == nil {
		return ports, nil
	}
	errs := []error{fmt.Errorf("roce: opening lane %d of %v: %w", len(ports)+1, p.local.Addr(), err)}
	for _, opened := range ports {
		errs = append(errs, opened.Close())
	}
	return nil, errors.Join(errs...)
}
