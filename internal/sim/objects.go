// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// driver is as much of a driver as makes regions, windows and address handles; its
// embedded interface is nil.
type driver struct {
	verbs.Driver
	host *Host // nil once it has its domain
}

func newPD(h *Host) *verbs.PD {
	d := &driver{host: h}
	pd, err := verbs.NewDevice(d).AllocPD()
	if err != nil {
		panic(err) // the driver below refuses nothing
	}
	d.host = nil // else the Device would never be released: what closes it has the driver
	return pd
}

func (d *driver) SetEventSink(func(verbs.EventType, int)) {}
func (d *driver) Close() error                            { return nil }
func (d *driver) AllocPD() (verbs.PDDriver, error)        { return &pdDriver{host: d.host}, nil }

type pdDriver struct {
	verbs.PDDriver
	host *Host
}

func (p *pdDriver) RegMR(buf []byte, access verbs.Access) (verbs.MRDriver, error) {
	t := p.host.Device.Memory
	r, err := t.Register(pdNum, buf, access)
	return &mrDriver{table: t, region: r}, err
}

func (p *pdDriver) AllocMW(t verbs.MWType) (verbs.MWDriver, error) {
	table := p.host.Device.Memory
	return &mwDriver{table: table, window: table.AllocWindow(pdNum, t)}, nil
}

func (p *pdDriver) CreateAH(attr verbs.AHAttr) (verbs.AHDriver, error) {
	v, err := p.host.resolve(attr)
	return ahDriver{v}, err
}

type mrDriver struct {
	verbs.MRDriver
	table  *memory.Table
	region *memory.Region
}

func (m *mrDriver) Region() *memory.Region { return m.region }
func (m *mrDriver) Addr() uint64           { return m.region.Addr() }
func (m *mrDriver) LKey() verbs.Key        { return m.region.Key() }
func (m *mrDriver) RKey() verbs.Key        { return m.region.Key() }
func (m *mrDriver) Bytes() []byte          { return m.region.Bytes() }
func (m *mrDriver) Dereg() error           { return m.table.Deregister(m.region) }

type mwDriver struct {
	table  *memory.Table
	window *memory.Window
}

func (m *mwDriver) Window() *memory.Window { return m.window }
func (m *mwDriver) RKey() verbs.Key        { return m.window.Key() }
func (m *mwDriver) Dealloc() error         { m.table.FreeWindow(m.window); return nil }

type ahDriver struct{ vector *ibta.Vector }

func (a ahDriver) Vector() *ibta.Vector { return a.vector }
func (a ahDriver) Destroy() error       { return nil }
