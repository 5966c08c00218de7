// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// ah is an address handle.
type ah struct {
	dev    *Device
	vector *ibta.Vector
	softdev.ObservedAH
}

func (d *Device) NewAH(attr verbs.AHAttr) (driver.AH, error) {
	attr.Port = max(attr.Port, 1)
	path, err := d.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	if err := d.Counts.Handles.Add(); err != nil {
		return nil, err
	}
	return &ah{dev: d, vector: &ibta.Vector{Attr: attr, Path: path, Key: path.Key()}}, nil
}

// Vector returns the resolved address vector.
func (a *ah) Vector() *ibta.Vector { return a.vector }

// Destroy frees the handle; datagrams that were posted hold the vector.
func (a *ah) Destroy() error {
	a.dev.Lock()
	defer a.dev.Unlock()
	a.dev.RemoveAH(&a.ObservedAH)
	a.dev.Counts.Handles.Remove()
	return nil
}
