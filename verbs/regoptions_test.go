// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// plainDriver is a device that registers memory and has no options for that.
type plainDriver struct {
	deviceDriver
	caps DeviceCap
}

type plainPD struct {
	pdDriver
	access Access // of the last region
}

func (d *plainDriver) Close() error                      { return nil } // by the garbage collector, too
func (d *plainDriver) QueryDevice() DeviceAttr           { return DeviceAttr{Ports: 1, Caps: d.caps} }
func (d *plainDriver) SetEventSink(func(EventType, int)) {}
func (d *plainDriver) AllocPD() (pdDriver, error)        { return &plainPD{}, nil }

func (p *plainPD) RegMROptions([]byte, Access, driverRegOptions) (mrDriver, error) {
	return nil, ErrNotSupported
}

func (p *plainPD) RegMR(buf []byte, access Access) (mrDriver, error) {
	p.access = access
	return &plainMR{b: buf}, nil
}

// optionPD knows options.
type optionPD struct {
	plainPD
	opt driverRegOptions
}

func (p *optionPD) RegMROptions(buf []byte, access Access, opt driverRegOptions) (mrDriver, error) {
	p.access, p.opt = access, opt
	return &plainMR{b: buf}, nil
}

// TestOptionsUnknown holds that a device that does not know an option says so, and does not ignore it.
func TestOptionsUnknown(t *testing.T) {
	pd, err := newDevice(&plainDriver{}).AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, o := range []RegOption{Pinned(), Pipelined(0), Deferred(), Weak(), OnDemandPaging()} {
		if _, err := pd.RegMR(buf, 0, o); !errors.Is(err, ErrNotSupported) {
			t.Error(err)
		}
	}
	for _, o := range []RegOption{Pinned(), Pipelined(0), Deferred(), Weak()} {
		if _, err := pd.RegMR(buf, 0, External(0), o); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
	mr, err := pd.RegMR(buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := mr.Prefetch(0, 100, false); !errors.Is(err, ErrNotSupported) {
		t.Error(err)
	}
	if err := mr.WaitPinned(t.Context()); !errors.Is(err, ErrNotSupported) {
		t.Error(err)
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	if pd.users != 0 {
		t.Errorf("%d regions that were refused are left", pd.users)
	}
}

// TestOptionsReachDriver checks the options that a driver gets.
func TestOptionsReachDriver(t *testing.T) {
	drv := &optionPD{}
	pd := &PD{dev: newDevice(&plainDriver{caps: CapOnDemand}), drv: drv}
	for _, c := range []struct {
		access Access
		opts   []RegOption
		want   driverRegOptions
		got    Access
	}{
		{0, []RegOption{Pinned()}, driverRegOptions{Mode: hook.RegPinned}, 0},
		{0, []RegOption{Pinned(), Pinned()}, driverRegOptions{Mode: hook.RegPinned}, 0},
		{0, []RegOption{Pipelined(0)}, driverRegOptions{Mode: hook.RegPipelined, Chunk: DefaultChunk}, 0},
		{LocalWrite, []RegOption{Pipelined(5)}, driverRegOptions{Mode: hook.RegPipelined, Chunk: 5}, LocalWrite},
		{0, []RegOption{Deferred()}, driverRegOptions{Mode: hook.RegDeferred}, 0},
		{0, []RegOption{OnDemandPaging()}, driverRegOptions{}, OnDemand},
		{OnDemand, []RegOption{OnDemandPaging()}, driverRegOptions{}, OnDemand},
		{0, []RegOption{OnDemandPaging(), Weak()}, driverRegOptions{Weak: true}, OnDemand},
		{0, nil, driverRegOptions{}, 0},
	} {
		drv.opt, drv.access = driverRegOptions{}, 0
		if _, err := pd.RegMR(make([]byte, 100), c.access, c.opts...); err != nil {
			t.Fatal(err)
		}
		if drv.opt != c.want || drv.access != c.got {
			t.Errorf("%+v with access %v reached the driver, want %+v with %v", drv.opt, drv.access, c.want, c.got)
		}
	}
}

func TestPinLimitErrno(t *testing.T) {
	if e := (&OpError{Err: ErrPinLimit}).Errno(); e != syscall.ENOMEM {
		t.Error(e)
	}
}
