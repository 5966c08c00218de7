// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pd is a protection domain.
type pd struct {
	dev *Device
	num memory.PD
}

// Dealloc has nothing to free: what was made from the domain is gone.
func (p *pd) Dealloc() error { return nil }

// ah is an address handle.
type ah struct{ vector *ibta.Vector }

func (p *pd) CreateAH(attr verbs.AHAttr) (verbs.AHDriver, error) {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if p.dev.closed {
		return nil, verbs.ErrClosed
	}
	route, err := p.dev.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	return &ah{&ibta.Vector{Attr: attr, Route: route}}, nil
}

// Vector returns the resolved address vector.
func (a *ah) Vector() *ibta.Vector { return a.vector }

// Destroy has nothing to free: datagrams that were posted hold the vector.
func (a *ah) Destroy() error { return nil }

// xrcd is an XRC domain.
type xrcd struct {
	dev    *Device
	domain ibta.Domain
}

// OpenXRCD opens an XRC domain.
func (d *Device) OpenXRCD() (verbs.XRCDDriver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	return &xrcd{dev: d, domain: ibta.Domain{Queues: make(map[uint32]*ibta.RecvQueue)}}, nil
}

func (x *xrcd) CreateTargetQP(spec verbs.QPSpec) (verbs.QPDriver, error) {
	return x.dev.createQP(0, &x.domain, &spec)
}

func (x *xrcd) Close() error { return nil }
