// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// manager is shared by all ids of a device.
//
// One lock covers it, its protocol and all of its ids. It is taken before the locks of event
// channels, and before the device's own.
//
// The device keeps its manager alive, and not the other way around. A device whose ids are closed
// is freed when the program drops it, though its manager still waits for datagrams.
type manager struct {
	drv  driver.Device
	name string // the device's

	mu      sync.Mutex
	proto   protocol
	ids     map[*ID]struct{}
	ports   map[portKey]*port
	shared  shared
	stopped bool // ids can only be closed
	idList  observe.ObjectList[*listedID]
}

// managerSlot holds the manager of a device. The device keeps it.
type managerSlot struct {
	sync.Mutex
	m *manager
}

// managerKey is the key of a device's place; see driver.Local.
type managerKey struct{}

// managerSlotOf returns the place of a device.
func managerSlotOf(dev *verbs.Device) *managerSlot {
	return driver.Local(dev, managerKey{}, func() any { return new(managerSlot) }).(*managerSlot)
}

// attachManager adds id to its device's manager, which starts with the first id and ends with the device.
func attachManager(id *ID) error {
	at := managerSlotOf(id.dev)
	at.Lock()
	defer at.Unlock()
	if m := at.m; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.stopped {
			m.add(id, m.proto.newEndpoint(id))
			return nil
		}
	}
	m, err := newManager(id.dev)
	if err != nil {
		return fmt.Errorf("cm: %s: %w", id.dev.Name(), err)
	}
	at.m = m
	observe.SetConnLister(id.dev, m.observe)
	m.add(id, m.proto.newEndpoint(id))
	m.proto.run()
	return nil
}

// openMAD is replaced by tests that lose datagrams. It opens the driver's agent, because a
// *umad.Agent keeps its device from being freed. The agent also gets datagrams of other
// versions of the class, to refuse them.
var openMAD = func(d driver.MADDevice) (driver.MADAgent, error) {
	return d.OpenMAD(1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
}

func newManager(dev *verbs.Device) (*manager, error) {
	gids, err := dev.GIDs(1)
	if err != nil {
		return nil, err
	}
	m := &manager{drv: driver.DeviceOf(dev), name: dev.Name(), ids: map[*ID]struct{}{}, ports: map[portKey]*port{}}
	if len(gids) == 0 {
		return nil, opErr("create_id", verbs.ErrNotSupported, "%s has no address", dev.Name())
	}
	c, ok := m.drv.(driver.Connector)
	if !ok {
		return nil, opErr("create_id", verbs.ErrNotSupported, "%s has no connection manager", m.name)
	}
	if err := c.Connections(m); err != nil {
		return nil, err
	}
	if err := driver.OnClose(dev, m.goodbye); err != nil {
		m.proto.close()
		return nil, err
	}
	if p, ok := m.proto.(*ibProtocol); ok && p.subnet != nil {
		driver.OnEvent(dev, func(t verbs.EventType, port int) {
			if t == verbs.EventClientReregister && port == 1 {
				p.subnet.rejoinAll(p)
			}
		})
	}
	return m, nil
}

// Datagrams is called by devices with a QP1 (driver.Protocols).
func (m *manager) Datagrams(d driver.MADDevice) error {
	a, err := openMAD(d)
	if err != nil {
		return err
	}
	m.proto = newIBProtocol(m, a)
	return nil
}

// Streams is called by devices whose connections are streams (driver.Protocols).
func (m *manager) Streams(drv driver.StreamDevice) error {
	m.proto = newStreamProtocol(m, drv)
	return nil
}

func (m *manager) add(id *ID, e endpoint) {
	id.m, id.ep = m, e
	m.ids[id] = struct{}{}
	id.listed.id = id
	m.idList.Add(&id.listed)
}

// unlock sends due datagrams, delivers events, and frees the resources that connections share if there are
// none left. Then it releases the lock. The manager stays: a peer that did not get our last message repeats
// its own for longer than anything of its connection is left here. It expects an answer, if only
// that there is no such connection.
func (m *manager) unlock() {
	if !m.stopped {
		m.proto.flush()
		if len(m.ids) == 0 && m.proto.idle() {
			m.shared.close()
		}
	}
	m.mu.Unlock()
}

// releaseIdle closes the resources that connections share if no connection uses them any more.
func (m *manager) releaseIdle() {
	m.mu.Lock()
	m.unlock()
}

func (m *manager) stop() {
	m.stopped = true
	m.proto.close()
	m.shared.close()
}

// goodbye tells all peers that their connections end, because the device is about to be closed
// and will not answer them.
func (m *manager) goodbye() {
	say := func() {}
	m.mu.Lock()
	if !m.stopped {
		say = m.proto.goodbye()
	}
	m.mu.Unlock()
	say()
}

// fail ends the manager of a device that is gone, and tells all ids.
func (m *manager) fail(err error) {
	m.mu.Lock()
	if !m.stopped {
		for _, id := range slices.Collect(maps.Keys(m.ids)) {
			id.state = removed
			if id.endQueries != nil {
				id.endQueries()
			}
			id.deliver(&Event{Type: DeviceRemoval, ID: id, Err: err})
		}
		m.stop()
	}
	m.unlock()
}
