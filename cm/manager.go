// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// manager is what all ids of a device share.
//
// One lock covers it, its protocol and all of its ids. It is taken before those of event
// channels, and before the device's own.
type manager struct {
	dev   *verbs.Device
	addrs []netip.Addr // the device's, the first one stands for those that are not specified

	mu      sync.Mutex
	proto   protocol
	ids     map[*ID]struct{}
	ports   map[portKey]*port
	shared  shared
	stopped bool // all that is left is that ids can be closed
}

// managers has the manager of each device that has had ids.
var managers = struct {
	sync.Mutex
	of map[*verbs.Device]*manager
}{of: map[*verbs.Device]*manager{}}

// enter makes id one of its device's manager, which starts with the first and ends with
// the device.
func enter(id *ID, dev *verbs.Device) error {
	managers.Lock()
	defer managers.Unlock()
	if m := managers.of[dev]; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.stopped {
			m.add(id)
			return nil
		}
	}
	m, err := newManager(dev)
	if err != nil {
		return fmt.Errorf("cm: %s: %w", dev.Name(), err)
	}
	managers.of[dev] = m
	m.add(id)
	m.proto.run()
	return nil
}

// openGSI is replaced by tests that lose datagrams.
var openGSI = func(dev *verbs.Device) (gsi, error) {
	g, err := dev.OpenGSI()
	if err != nil {
		return nil, err
	}
	return g, nil
}

func newManager(dev *verbs.Device) (*manager, error) {
	gids, err := dev.GIDs(1)
	if err != nil {
		return nil, err
	}
	m := &manager{dev: dev, ids: map[*ID]struct{}{}, ports: map[portKey]*port{}}
	for _, g := range gids {
		m.addrs = append(m.addrs, g.GID.Addr())
	}
	if len(m.addrs) == 0 {
		return nil, opErr("create_id", verbs.ErrNotSupported, "%s has no address", dev.Name())
	}
	if drv, ok := dev.Driver().(verbs.StreamDriver); ok {
		m.proto = newStreamProtocol(m, drv)
		return m, nil
	}
	g, err := openGSI(dev)
	if err != nil {
		return nil, err
	}
	m.proto = newIBProtocol(m, g)
	return m, nil
}

func (m *manager) add(id *ID) {
	id.m = m
	m.ids[id] = struct{}{}
}

// unlock gives up the lock once what is due has been sent and told, and gives back what
// connections share when there are none. The manager stays: a peer that our last word did not
// reach repeats its own for longer than anything of its connection is left here, and wants
// to be answered, if only that there is no such connection.
func (m *manager) unlock() {
	if !m.stopped {
		m.proto.flush()
		if len(m.ids) == 0 && m.proto.idle() {
			m.shared.close()
		}
	}
	stopped := m.stopped
	m.mu.Unlock()
	if !stopped {
		return
	}
	managers.Lock()
	if managers.of[m.dev] == m {
		delete(managers.of, m.dev)
	}
	managers.Unlock()
}

// tidy is called after something that connections shared was given back.
func (m *manager) tidy() {
	m.mu.Lock()
	m.unlock()
}

func (m *manager) stop() {
	m.stopped = true
	m.proto.close()
	m.shared.close()
}

// fail ends the manager of a device that is gone, and tells all ids.
func (m *manager) fail(err error) {
	m.mu.Lock()
	if !m.stopped {
		for _, id := range slices.Collect(maps.Keys(m.ids)) {
			id.state = removed
			id.tell(&Event{Type: DeviceRemoval, ID: id, Err: err})
		}
		m.stop()
	}
	m.unlock()
}

// local says which of the device's addresses is meant.
func (m *manager) local(a netip.Addr) (netip.Addr, error) {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsUnspecified() {
		return m.addrs[0], nil
	}
	if !slices.Contains(m.addrs, a) {
		return a, fmt.Errorf("%w: %v is not an address of %s", ErrNoAddr, a, m.dev.Name())
	}
	return a, nil
}
