// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// On a fabric a host discovers, connects, writes and reads; the discovery log says what sort of network it is.
func TestInfiniBand(t *testing.T) {
	targets, hosts := rdmatest.FabricPair(t)
	target := nvme.NewTarget(nvme.TargetOptions{})
	defer target.Close()
	sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	ok(t, err)
	ok(t, sub.AddNamespace(disk(1, 64<<10)))
	p, err := target.Listen(t.Context(), targets, ":0")
	ok(t, err)
	list, err := nvme.Discover(within(t), hosts, p.Addr().String(), nvme.HostOptions{})
	ok(t, err)
	if len(list) != 1 || list[0].SubNQN != diskNQN || list[0].Provider != wire.ProviderIB ||
		nvme.EntryAddress(&list[0]) != p.Addr().String() {
		t.Fatalf("%+v", list)
	}
	c, err := nvme.Dial(within(t), hosts, nvme.EntryAddress(&list[0]), diskNQN, nvme.HostOptions{KeepAlive: patience,
		Timeout: patience})
	ok(t, err)
	defer c.Close()
	d, err := c.Open(within(t), 1)
	ok(t, err)
	want, got := random(64<<10), make([]byte, 64<<10)
	_, err = d.WriteAt(want, 0)
	ok(t, err)
	_, err = d.ReadAt(got, 0)
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
}
