// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// pd is a protection domain.
type pd struct {
	dev *Device
	num memory.PD
}

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() (driver.PD, error) {
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("alloc_pd", nil); err != nil {
		return nil, err
	}
	if err := d.Counts.domains.Add(); err != nil {
		return nil, err
	}
	d.nextPD++
	return &pd{dev: d, num: d.nextPD}, nil
}

// Dealloc frees little: nothing that was made from the domain is left.
func (p *pd) Dealloc() error {
	p.dev.Lock()
	defer p.dev.Unlock()
	p.dev.Counts.domains.Remove()
	p.dev.memory.DropDomain(p.num)
	return nil
}

func (p *pd) CreateAH(attr verbs.AHAttr) (driver.AH, error) {
	if err := locate(p.dev.port, attr.DGID); err != nil {
		return nil, err
	}
	p.dev.Lock()
	defer p.dev.Unlock()
	if p.dev.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := p.dev.refuses("create_ah", nil); err != nil {
		return nil, err
	}
	a, err := p.dev.fabric.NewAH(attr)
	if h, ok := a.(interface{ observed() *ObservedAH }); ok && err == nil {
		h.observed().info = driver.AHInfo{PD: uint32(p.num), DGID: attr.DGID, DLID: attr.DLID, SL: attr.SL,
			Port: max(attr.Port, 1)}
		addObject(p.dev, &p.dev.objects.ahs, h.observed())
	}
	return a, err
}
