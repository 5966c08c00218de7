// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A device that a program drops is freed, though it has had a connection: its manager waits for late
// messages of peers, and does not keep the device.
func TestDroppedDevice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	for kind, open := range map[string]func(addr string) (*verbs.Device, error){
		"roce":  func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) },
		"iwarp": func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) },
	} {
		t.Run(kind, func(t *testing.T) {
			dropped := func() weak.Pointer[verbs.Device] {
				dev := openFree(t, open)
				l, err := cm.Listen(t.Context(), dev, ":0")
				ok(t, err)
				in := accept(t, l)
				c, err := cm.Dial(within(t), dev, l.Addr().String())
				ok(t, err)
				s := <-in
				ok(t, s.err)
				ok(t, c.Close())
				ok(t, s.c.Close())
				ok(t, l.Close())
				return weak.Make(dev)
			}()
			freed(t, dropped)
		})
	}
}

// openFree opens a device that the test does not keep.
func openFree(t *testing.T, open func(addr string) (*verbs.Device, error)) *verbs.Device {
	t.Helper()
	var err error
	for range 100 { // others may have the address
		var dev *verbs.Device
		if dev, err = open(loopback.Next().String()); err == nil {
			return dev
		}
	}
	t.Fatal(err)
	return nil
}

// freed waits until a device is garbage.
func freed(t *testing.T, dev weak.Pointer[verbs.Device]) {
	t.Helper()
	eventually(t, func() bool {
		runtime.GC()
		return dev.Value() == nil
	}, "the device is freed")
}
