// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"testing"
	"weak"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
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
	for kind, open := range map[string]func(addr string) (*verbs.Device, error){
		"roce":       func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) },
		"iwarp":      func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) },
		"shm":        func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) },
		"infiniband": func(string) (*verbs.Device, error) { return fabric.Open("host-1", nil) },
	} {
		t.Run(kind, func(t *testing.T) { freed(t, used(t, openFree(t, open))) })
	}
}

// used has a device listen, connects it to itself where that works, and closes it.
func used(t *testing.T, dev *verbs.Device) weak.Pointer[verbs.Device] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := cm.Listen(ctx, dev, ":0")
	ok(t, err)
	go l.Accept(ctx)
	if c, err := cm.Dial(ctx, dev, l.Addr().String()); err == nil {
		c.Send(ctx, []byte("message"))
	}
	ok(t, dev.Close())
	return weak.Make(dev)
}
