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
				var dev *verbs.Device
				for dev == nil { // others may have the address
					dev, _ = open(loopback.Next().String())
				}
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
			eventually(t, func() bool {
				runtime.GC()
				return dropped.Value() == nil
			}, "the device is freed")
		})
	}
}
