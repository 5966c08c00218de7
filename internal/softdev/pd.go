// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// domain is a protection domain, as far as it is no engine's business.
type domain struct {
	dev *core
	num memory.PD
}

// domainDriver is a domain of any device of this package.
type domainDriver interface{ number() memory.PD }

func (d *core) newDomain() (domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return domain{}, verbs.ErrClosed
	}
	if err := d.counts.domains.add(); err != nil {
		return domain{}, err
	}
	d.nextPD++
	return domain{dev: d, num: d.nextPD}, nil
}

func (p *domain) number() memory.PD { return p.num }

// Dealloc has little to free: what was made from the domain is gone.
func (p *domain) Dealloc() error {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	p.dev.counts.domains.remove()
	return nil
}

// pd is a protection domain.
type pd struct {
	domain
	dev *Device
}

// ah is an address handle.
type ah struct {
	dev    *Device
	vector *ibta.Vector
}

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
	if err := p.dev.counts.handles.add(); err != nil {
		return nil, err
	}
	return &ah{p.dev, &ibta.Vector{Attr: attr, Route: route}}, nil
}

// Vector returns the resolved address vector.
func (a *ah) Vector() *ibta.Vector { return a.vector }

// Destroy frees the handle; datagrams that were posted hold the vector.
func (a *ah) Destroy() error {
	a.dev.mu.Lock()
	defer a.dev.mu.Unlock()
	a.dev.counts.handles.remove()
	return nil
}

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
	if err := d.counts.xrcDomains.add(); err != nil {
		return nil, err
	}
	return &xrcd{dev: d, domain: ibta.Domain{Queues: make(map[uint32]*ibta.RecvQueue)}}, nil
}

func (x *xrcd) CreateTargetQP(spec verbs.QPSpec) (verbs.QPDriver, error) {
	return x.dev.createQP(0, &x.domain, &spec)
}

func (x *xrcd) Close() error {
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	x.dev.counts.xrcDomains.remove()
	return nil
}
