// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// soloDriver is a device with attributes as the kernel's devices have them.
type soloDriver struct{ driver.Device }

func (d soloDriver) QueryDevice() verbs.DeviceAttr {
	a := d.Device.QueryDevice()
	a.Caps &^= verbs.CapWatch
	return a
}

// The target of one-sided operations does not poll where its device needs no polls: it has no completion queue here.
func TestSoloTargetSleeps(t *testing.T) {
	soft, err := opener("roce:")(LoopbackAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer soft.Close()
	pd, err := driver.NewDevice(soloDriver{driver.DeviceOf(soft)}).AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	for _, op := range []Op{Write, Read, FetchAdd} {
		s := &side{Config: Config{Op: op, Mode: Bandwidth, Transport: RC}, pd: pd}
		s.ctx, s.wake = context.WithCancel(context.Background())
		s.halt.Store(peerDone)
		s.wake()
		if err := s.serve(); err != nil {
			t.Errorf("%v: %v", op, err)
		}
	}
	if solo(soft) {
		t.Errorf("%v would not be polled", soft.Name())
	}
}
