// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// keepAlive is for hosts whose targets go: they repeat writes after it. A busy machine may stand still for a second.
const keepAlive = 3 * time.Second

// patience bounds a wait for something that must happen.
const patience = time.Minute

const (
	diskNQN = "nqn.2026-01.org.example:disks"
	hostNQN = "nqn.2026-01.org.example:host"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// kinds runs a test over each kind of device.
func kinds(t *testing.T, f func(t *testing.T, kind string)) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// setting is a target with a subsystem, and a device for hosts.
type setting struct {
	target *nvme.Target
	sub    *nvme.Subsystem
	port   *nvme.Port

	dev, targets *verbs.Device // of hosts, and of targets
}

func (s *setting) addr() string { return s.port.Addr().String() }

// set makes a setting over a kind of device, in which any host may connect.
func set(t testing.TB, kind string, o nvme.TargetOptions, list ...nvme.Namespace) *setting {
	t.Helper()
	targets, hosts := rdmatest.PairOf(t, kind)
	return setOn(t, targets, hosts, o, list...)
}

// setOn makes a setting on devices.
func setOn(t testing.TB, targets, hosts *verbs.Device, o nvme.TargetOptions, list ...nvme.Namespace) *setting {
	t.Helper()
	s := &setting{target: nvme.NewTarget(o), dev: hosts, targets: targets}
	var err error
	s.sub, err = s.target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	ok(t, err)
	for _, n := range list {
		ok(t, s.sub.AddNamespace(n))
	}
	s.port, err = s.target.Listen(t.Context(), targets, ":0")
	ok(t, err)
	t.Cleanup(func() { s.target.Close() })
	return s
}

// dial connects a host.
func (s *setting) dial(t testing.TB, o nvme.HostOptions) *nvme.Controller {
	t.Helper()
	if o.NQN == "" {
		o.NQN = hostNQN
	}
	o.KeepAlive, o.Timeout = patience, patience // however busy the machine is
	c, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, o)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// disk is a writable namespace in memory.
func disk(id uint32, size int) nvme.Namespace {
	return nvme.Namespace{ID: id, Disk: nvme.NewMemory(size), Size: int64(size), Writable: true, Immediate: true}
}

// ioQueue has an admin queue connect to a controller, and connects an I/O queue of it.
func ioQueue(t *testing.T, s *setting, a *raw) *raw {
	t.Helper()
	done := a.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	for late := time.Now().Add(patience); done.Status == wire.ConnectControllerBusy && time.Now().Before(late); {
		time.Sleep(time.Millisecond) // the host's controller before ends soon
		done = a.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	}
	if done.Status != wire.Success {
		t.Fatal("no controller:", done)
	}
	a.enable()
	q, err := connect(t, s, (&wire.Request{QID: 1, HostRecvs: 32, HostSends: 31}).Append(nil))
	ok(t, err)
	d := connectData
	d.Controller = uint16(done.Result)
	if done := q.connectTo(wire.ConnectParams{QID: 1, SQSize: 31}, d); done.Status != wire.Success {
		t.Fatal("no queue:", done)
	}
	return q
}
