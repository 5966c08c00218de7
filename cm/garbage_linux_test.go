// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestClosedDevices: nothing keeps a device that is closed, even if its program has not closed what it had there. A
// program may open devices again and again, and each has half a megabyte of buffers.
func TestClosedDevices(t *testing.T) {
	fabric, err := infiniband.GenerateFabric("star:2", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fabric.Close()
	for kind, open := range map[string]func() (*verbs.Device, error){
		"roce":       func() (*verbs.Device, error) { return roce.Open(loopback.Next().String(), nil) },
		"iwarp":      func() (*verbs.Device, error) { return iwarp.Open(loopback.Next().String(), nil) },
		"shm":        func() (*verbs.Device, error) { return shm.Open(loopback.Next().String(), nil) },
		"infiniband": func() (*verbs.Device, error) { return fabric.Open("host-1", nil) },
	} {
		t.Run(kind, func(t *testing.T) {
			dev := used(t, open)
			for end := time.Now().Add(time.Minute); dev.Value() != nil; time.Sleep(time.Millisecond) {
				if runtime.GC(); time.Now().After(end) {
					t.Fatal("the device is kept")
				}
			}
		})
	}
}

// used opens a device, has it listen, and connects it to itself where that works, and closes it.
func used(t *testing.T, open func() (*verbs.Device, error)) weak.Pointer[verbs.Device] {
	t.Helper()
	dev, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := cm.Listen(ctx, dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	go l.Accept(ctx)
	if c, err := cm.Dial(ctx, dev, l.Addr().String()); err == nil {
		c.Send(ctx, []byte("message"))
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	return weak.Make(dev)
}
