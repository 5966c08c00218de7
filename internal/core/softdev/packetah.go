// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// ah is an address handle.
type ah struct {
	dev    *PacketDevice
	vector *ibta.Vector
	observedAH
}

func (d *PacketDevice) newAH(attr verbs.AHAttr) (driver.AH, error) {
	attr.Port = max(attr.Port, 1)
	path, err := d.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	if err := d.counts.handles.add(); err != nil {
		return nil, err
	}
	return &ah{dev: d, vector: &ibta.Vector{Attr: attr, Path: path, Key: path.Key()}}, nil
}

// Vector returns the resolved address vector.
func (a *ah) Vector() *ibta.Vector { return a.vector }

// Destroy frees the handle; datagrams that were posted hold the vector.
func (a *ah) Destroy() error {
	a.dev.lane.mu.Lock()
	defer a.dev.lane.mu.Unlock()
	removeObject(&a.dev.Device, &a.dev.objects.ahs, &a.observedAH)
	a.dev.counts.handles.remove()
	return nil
}
