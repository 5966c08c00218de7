// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// streams is the way to a device's connection manager.
type streams struct{ driver.StreamDevice }

func (s *streams) Datagrams(driver.MADDevice) error { return verbs.ErrNotSupported }

func (s *streams) Streams(d driver.StreamDevice) error {
	s.StreamDevice = d
	return nil
}

func streamsOf(t testing.TB, dev *verbs.Device) driver.StreamDevice {
	t.Helper()
	var s streams
	if err := driver.DeviceOf(dev).(driver.Connector).Connections(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// byManager connects two queue pairs in RESET by the kernel's connection manager: queue pairs of iWARP, which have no
// numbers on the wire.
func byManager(t testing.TB, a, b *verbs.QP, opt *verbs.ConnectOptions) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, qp := range []*verbs.QP{a, b} {
		must(qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: opt.Access &^ verbs.FlushPersistent},
			verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskAccess))
	}
	param := func(dev *verbs.Device) driver.StreamParam {
		lim, n := dev.Query(), int(opt.RdAtomic)
		if n == 0 {
			n = 16
		}
		return driver.StreamParam{IRD: uint16(min(n, lim.MaxQPRdAtomic)), ORD: uint16(min(n, lim.MaxQPInitRdAtomic))}
	}
	events := make(chan driver.StreamEvent, 16)
	tell := func(e driver.StreamEvent) {
		select {
		case events <- e:
		default: // of the end, long after
		}
	}
	next := func(want driver.StreamEventType) driver.StreamEvent {
		t.Helper()
		select {
		case e := <-events:
			if e.Type != want {
				t.Fatalf("connecting: event %d (%v), want %d", e.Type, e.Err, want)
			}
			return e
		case <-time.After(time.Minute):
			t.Fatalf("connecting: no event, want %d", want)
			return driver.StreamEvent{}
		}
	}
	l, err := streamsOf(t, b.Device()).ListenStream(netip.AddrPortFrom(addressOf(t, b.Device()), 0), 1, tell)
	must(err)
	defer l.Close()
	_, err = streamsOf(t, a.Device()).DialStream(driver.QPOf(a), netip.AddrPortFrom(addressOf(t, a.Device()), 0),
		l.Addr(), param(a.Device()), tell)
	must(err)
	must(next(driver.StreamRequested).Stream.Accept(driver.QPOf(b), param(b.Device()), tell))
	next(driver.StreamEstablished)
	next(driver.StreamEstablished)
}
