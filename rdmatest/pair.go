// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// patience bounds the waits of Pair and Conns, in real time.
const patience = time.Minute

// Pair opens two RoCE devices in real time, on loopback addresses that no other test has. They are closed with the
// test, which fails if objects are left on them, from queue pairs to protection domains. Completion channels are not
// counted. The test is skipped where there are no such addresses: that is, anywhere but on Linux. The devices have the
// faults of [ramjet.SetFaults].
func Pair(t testing.TB) (a, b *verbs.Device) {
	t.Helper()
	return PairOf(t, "roce")
}

// PairOf is [Pair] with devices of another kind: iwarp, iwarp+sctp, iwarps, which needs certificates, shm, or
// infiniband, which is [FabricPair]. Devices of roce1 and kernel have no loopback addresses.
func PairOf(t testing.TB, kind string) (a, b *verbs.Device) {
	t.Helper()
	return kindPair(t, kind, func(*verbs.Device) {})
}

// kindPair is PairOf, and calls opened with each device before anybody else has it.
func kindPair(t testing.TB, kind string, opened func(*verbs.Device)) (a, b *verbs.Device) {
	t.Helper()
	k, err := kinds.Find(kind)
	if err != nil {
		t.Fatalf("rdmatest: %v", err)
	}
	switch {
	case k.Soft:
		return fabricPair(t, opened)
	case k.Link || k.Hardware:
		t.Fatalf("rdmatest: a pair of %s: these devices have no loopback addresses; open them by name", kind)
	}
	open := func(addr string) (*verbs.Device, error) {
		d, err := ramjet.Open(kind + ":" + addr)
		if err == nil {
			opened(d)
		}
		return d, err
	}
	a, _ = loopback.Open(t, open)
	b, _ = loopback.Open(t, open)
	reportLeft(t, a, b)
	return a, b
}

// FabricPair is [Pair] with devices of an InfiniBand fabric, which is the test's own.
func FabricPair(t testing.TB) (a, b *verbs.Device) {
	t.Helper()
	return fabricPair(t, func(*verbs.Device) {})
}

// fabricPair is FabricPair, and calls opened with each device before anybody else has it.
func fabricPair(t testing.TB, opened func(*verbs.Device)) (a, b *verbs.Device) {
	t.Helper()
	f, err := infiniband.GenerateFabric("pair", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.AwaitActive(ctx); err != nil {
		t.Fatal(err)
	}
	var devs [2]*verbs.Device
	for i := range devs {
		dev, err := f.Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		opened(dev)
		t.Cleanup(func() { dev.Close() })
		devs[i] = dev
	}
	reportLeft(t, devs[0], devs[1])
	return devs[0], devs[1]
}

// Conns connects two devices: a listens, and b dials. The connections are closed with the test.
func Conns(t testing.TB, a, b *verbs.Device, opts ...cm.Option) (server, client *cm.Conn) {
	t.Helper()
	server, client = connect(t, a, b, opts...)
	t.Cleanup(func() { server.Close() })
	t.Cleanup(func() { client.Close() })
	return server, client
}

// connect connects two devices.
func connect(t testing.TB, a, b *verbs.Device, opts ...cm.Option) (server, client *cm.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := cm.Listen(ctx, a, ":0", opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		conn *cm.Conn
		err  error
	}
	came := make(chan accepted, 1)
	go func() {
		conn, err := l.Accept(ctx)
		came <- accepted{conn, err}
	}()
	client, err = cm.Dial(ctx, b, l.Addr().String(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	got := <-came
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.conn, client
}

// reportLeft has the test fail if objects are left on two devices at its end. Package cm keeps memory on a device for
// the connections to come, in a domain of its own: a connection shows which that is.
func reportLeft(t testing.TB, a, b *verbs.Device) {
	t.Helper()
	server, client := connect(t, a, b)
	for _, d := range []*verbs.Device{a, b} {
		kept := make(map[uint32]bool)
		for _, mr := range list(d, driver.Observer.ObserveMRs) {
			kept[mr.PD] = true
		}
		t.Cleanup(func() {
			objects, err := left(d, kept)
			if err != nil {
				t.Errorf("rdmatest: %v", err)
			}
			if objects != "" {
				t.Errorf("rdmatest: %s has objects left at the end: %s; close what the test creates", d.Name(), objects)
			}
		})
	}
	client.Close()
	server.Close()
}

// left describes the objects on a device beside the domains kept, which are there as long as they have regions.
func left(d *verbs.Device, kept map[uint32]bool) (string, error) {
	all, err := d.Metrics()
	if err != nil {
		return "", err
	}
	domains, regions := make(map[uint32]bool), 0
	for _, mr := range list(d, driver.Observer.ObserveMRs) {
		if kept[mr.PD] {
			domains[mr.PD] = true
			regions++
		}
	}
	var parts []string
	for _, m := range all {
		if m.Unit != metric.UnitObjects {
			continue
		}
		n := int(m.Value)
		switch m.Name {
		case "pds":
			n -= len(domains)
		case "mrs":
			n -= regions
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", m.Help, n))
		}
	}
	return strings.Join(parts, ", "), nil
}

// list returns the entries of all pages of a listing.
func list[T any](d *verbs.Device, observe func(o driver.Observer, page []T, at int) (n, next int)) (all []T) {
	page := make([]T, 64)
	for at := driver.FirstPage; at != 0; {
		var n int
		n, at = observe(driver.DeviceOf(d).(driver.Observer), page, at)
		all = append(all, page[:n]...)
	}
	return all
}
