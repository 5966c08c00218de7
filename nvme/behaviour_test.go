// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// Namespaces are read-only unless the target says otherwise, and the disk is not asked.
func TestReadOnly(t *testing.T) {
	n := disk(1, 64<<10)
	n.Writable = false
	s := set(t, "shm", nvme.TargetOptions{}, n)
	d, err := s.dial(t, nvme.HostOptions{}).Open(within(t), 1)
	ok(t, err)
	if !d.ReadOnly() {
		t.Error("the host is not told")
	}
	ctx := within(t)
	_, err = d.Write(ctx, make([]byte, 512), 0)
	for what, err := range map[string]error{"write": err, "write zeroes": d.WriteZeroes(ctx, 0, 512),
		"deallocate": d.Deallocate(ctx, 0, 512)} {
		if !errors.Is(err, wire.NamespaceWriteProtected) {
			t.Error(what, err)
		}
	}
	_, err = d.Read(ctx, make([]byte, 512), 0)
	ok(t, err)
	ok(t, d.Flush(ctx))
}

// brokenDisk fails with an error.
type brokenDisk struct{ err error }

func (d brokenDisk) ReadAt([]byte, int64) (int, error)  { return 0, d.err }
func (d brokenDisk) WriteAt([]byte, int64) (int, error) { return 0, d.err }
func (d brokenDisk) Sync() error                        { return d.err }

// A disk's error goes to the host as the right status, and the queue goes on.
func TestDiskErrors(t *testing.T) {
	for _, c := range []struct{ err, read, write error }{
		{syscall.ENOSPC, wire.CapacityExceeded, wire.CapacityExceeded},
		{syscall.EROFS, wire.NamespaceWriteProtected, wire.NamespaceWriteProtected},
		{os.ErrPermission, wire.AccessDenied, wire.AccessDenied},
		{syscall.EIO, wire.UnrecoveredReadError, wire.WriteFault},
		{io.EOF, wire.UnrecoveredReadError, wire.WriteFault},
	} {
		s := set(t, "shm", nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: brokenDisk{c.err}, Size: 64 << 10,
			Writable: true})
		d, err := s.dial(t, nvme.HostOptions{}).Open(within(t), 1)
		ok(t, err)
		ctx := within(t)
		if _, err := d.Read(ctx, make([]byte, 4096), 0); !errors.Is(err, c.read) {
			t.Errorf("%v: read: %v", c.err, err)
		}
		if _, err := d.Write(ctx, make([]byte, 32<<10), 0); !errors.Is(err, c.write) {
			t.Errorf("%v: write: %v", c.err, err)
		}
		if err := d.WriteZeroes(ctx, 0, 4096); !errors.Is(err, c.write) {
			t.Errorf("%v: write zeroes: %v", c.err, err)
		}
		if err := d.Flush(ctx); !errors.Is(err, c.write) {
			t.Errorf("%v: flush: %v", c.err, err)
		}
	}
}

// slowDisk lets nothing pass before it is told to.
type slowDisk struct {
	*nvme.Memory
	begun chan struct{}
	go_   chan struct{}
}

func (d *slowDisk) ReadAt(b []byte, off int64) (int, error) {
	d.begun <- struct{}{}
	<-d.go_
	return d.Memory.ReadAt(b, off)
}

// await waits until a read has begun.
func (d *slowDisk) await(t *testing.T) {
	t.Helper()
	select {
	case <-d.begun:
	case <-time.After(patience):
		t.Fatal("the disk is not asked")
	}
}

// A slow disk has as many commands at once as the queue is deep, other commands go on beside them, and a host that
// gives one up gets nothing of it afterwards.
func TestSlowDisk(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const depth = 9
		slow := &slowDisk{nvme.NewMemory(1 << 20), make(chan struct{}, 100), make(chan struct{})}
		s := set(t, kind, nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: slow, Size: 1 << 20}, disk(2, 1<<20))
		c := s.dial(t, nvme.HostOptions{QueueDepth: depth + 1})
		d, err := c.Open(within(t), 1)
		ok(t, err)
		ctx, cancel := context.WithCancel(within(t))
		b := bytes.Repeat([]byte{1}, 4096)
		_, err = d.ReadAt(b, 1<<20)
		if err != io.EOF {
			t.Fatal(err)
		}
		given := make(chan error)
		go func() {
			_, err := d.Read(ctx, b, 0)
			given <- err
		}()
		slow.await(t)
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		other, err := c.Open(within(t), 2)
		ok(t, err)
		_, err = other.WriteAt(random(4096), 0)
		ok(t, err)
		var all sync.WaitGroup
		for range depth - 1 {
			all.Go(func() {
				if _, err := d.ReadAt(make([]byte, 4096), 0); err != nil {
					t.Error(err)
				}
			})
		}
		for range depth - 1 {
			slow.await(t)
		}
		close(slow.go_)
		all.Wait()
		if !bytes.Equal(b, bytes.Repeat([]byte{1}, 4096)) {
			t.Error("memory of a command that was given up was written")
		}
	})
}

// A disk answers when the host has gone: the queue pair is there until the last command has ended.
func TestLateDisk(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const commands = 8
		slow := &slowDisk{nvme.NewMemory(1 << 20), make(chan struct{}, 100), make(chan struct{})}
		targets, hosts := rdmatest.CheckedPair(t, kind, "")
		s := setOn(t, targets, hosts, nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: slow, Size: 1 << 20})
		c := s.dial(t, nvme.HostOptions{QueueDepth: commands + 1})
		d, err := c.Open(within(t), 1)
		ok(t, err)
		var all sync.WaitGroup
		for range commands {
			all.Go(func() { d.ReadAt(make([]byte, 4096), 0) })
			slow.await(t)
		}
		c.Close()
		all.Wait()
		time.Sleep(50 * time.Millisecond) // likely that the target has heard of it by then
		close(slow.go_)
		ok(t, s.target.Close())
	})
}

// A host is told of namespaces that come and go.
func TestNamespacesChange(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{}, disk(1, 4096))
	heard := make(chan []uint32, 10)
	c := s.dial(t, nvme.HostOptions{Changed: func(ids []uint32) { heard <- ids }})
	await := func(id uint32) {
		t.Helper()
		for {
			select {
			case ids := <-heard:
				for _, got := range ids {
					if got == id {
						return
					}
				}
			case <-time.After(patience):
				t.Fatal("nobody tells of namespace", id)
			}
		}
	}
	ok(t, s.sub.AddNamespace(disk(5, 8192)))
	await(5)
	d, err := c.Open(within(t), 5)
	ok(t, err)
	if d.Size() != 8192 {
		t.Error(d.Size())
	}
	ok(t, s.sub.RemoveNamespace(5))
	await(5)
	if _, err := d.ReadAt(make([]byte, 512), 0); !errors.Is(err, wire.InvalidNamespace) {
		t.Error(err)
	}
	if _, err := c.Open(within(t), 5); !errors.Is(err, wire.InvalidNamespace) {
		t.Error(err)
	}
	ok(t, s.sub.AddNamespace(disk(6, 8192)))
	await(6)
}

// cachedDisk counts its Syncs.
type cachedDisk struct {
	*nvme.Memory
	syncs atomic.Int32
}

func (d *cachedDisk) Sync() error {
	d.syncs.Add(1)
	return nil
}

// A host that shuts its controller down has its data on the medium.
func TestShutdown(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		cached := &cachedDisk{Memory: nvme.NewMemory(64 << 10)}
		s := set(t, kind, nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: cached, Size: 64 << 10, Writable: true})
		c := s.dial(t, nvme.HostOptions{})
		d, err := c.Open(within(t), 1)
		ok(t, err)
		_, err = d.WriteAt(random(512), 0)
		ok(t, err)
		if n := cached.syncs.Load(); n != 0 {
			t.Fatalf("%d Syncs before the shutdown", n)
		}
		c.Close()
		for ctx := within(t); cached.syncs.Load() != 1; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("%d Syncs after the shutdown", cached.syncs.Load())
			}
		}
	})
}

// The ends of a target and of a host are heard by the other, and nothing hangs.
func TestEnds(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{Controllers: 1}, disk(1, 64<<10))
		c := s.dial(t, nvme.HostOptions{})
		if _, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, nvme.HostOptions{}); !errors.Is(err,
			wire.ConnectControllerBusy) {
			t.Error("a second controller:", err)
		}
		c.Close()
		if _, err := c.Namespaces(within(t)); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		for ctx := within(t); ; time.Sleep(time.Millisecond) { // until the target has heard of it
			c, err := nvme.Dial(ctx, s.dev, s.addr(), diskNQN, nvme.HostOptions{KeepAlive: patience, Timeout: patience,
				LossTimeout: -1})
			if errors.Is(err, wire.ConnectControllerBusy) {
				continue
			}
			ok(t, err)
			d, err := c.Open(ctx, 1)
			ok(t, err)
			ok(t, s.target.Close())
			select {
			case <-c.Done():
			case <-ctx.Done():
				t.Fatal("the host does not hear of the target's end")
			}
			if _, err := d.ReadAt(make([]byte, 512), 0); err == nil || c.Err() == nil {
				t.Error("a read of a target that is gone")
			}
			c.Close()
			return
		}
	})
}

// Wrong configurations are refused in words.
func TestConfiguration(t *testing.T) {
	target := nvme.NewTarget(nvme.TargetOptions{})
	for _, o := range []nvme.SubsystemOptions{{}, {NQN: "disk"}, {NQN: "nqn." + string(make([]byte, 3))},
		{NQN: wire.DiscoveryNQN},
		{NQN: diskNQN, Hosts: []string{"me"}}, {NQN: diskNQN, Serial: "a serial number that is too long"}} {
		if _, err := target.AddSubsystem(o); err == nil {
			t.Error(o)
		}
	}
	sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN})
	ok(t, err)
	if _, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN}); err == nil {
		t.Error("twice")
	}
	m := nvme.NewMemory(4096)
	for _, n := range []nvme.Namespace{{}, {ID: 1}, {ID: 1, Disk: m}, {ID: 1, Disk: m, Size: 100},
		{ID: 0, Disk: m, Size: 4096},
		{ID: 1025, Disk: m, Size: 4096}, {ID: 1, Disk: m, Size: 4096, BlockSize: 256}, {ID: 1, Disk: m, Size: 4096,
			BlockSize: 1000},
		{ID: 1, Disk: io.NewSectionReader(m, 0, 4096), Size: 4096, Writable: true}} {
		if err := sub.AddNamespace(n); err == nil {
			t.Error(n)
		}
	}
	for _, o := range []nvme.HostOptions{{NQN: "me"}, {Queues: -1}, {QueueDepth: 1}, {MaxData: 1}, {Timeout: -1}} {
		if _, err := nvme.Dial(t.Context(), nil, "", diskNQN, o); err == nil {
			t.Error(o)
		}
	}
}

// A controller has the features that are mandatory (base 5.21.1), also ones that change nothing here. Without a
// keep-alive timeout it needs no keep-alive.
func TestMandatoryFeatures(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		r, err := connect(t, set(t, kind, nvme.TargetOptions{}, disk(1, 4096)), admin())
		ok(t, err)
		r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
		r.enable()
		feature := func(op wire.Opcode, f wire.Feature, value uint32) uint64 {
			t.Helper()
			done := r.ask(wire.Command{Opcode: op, CDW10: uint32(f), CDW11: value}, nil)
			if done.Status != wire.Success {
				t.Errorf("feature %#x: %v", f, done.Status)
			}
			return done.Result
		}
		for _, f := range []wire.Feature{wire.FeatureArbitration, wire.FeatureTemperature, wire.FeatureErrorRecovery,
			wire.FeatureAtomicity} {
			before := feature(wire.AdminGetFeatures, f, 0)
			feature(wire.AdminSetFeatures, f, 7)
			if after := feature(wire.AdminGetFeatures, f, 0); before != 0 || after != 7 {
				t.Errorf("feature %#x: %d, then %d", f, before, after)
			}
		}
		for _, f := range []wire.Feature{wire.FeaturePower, wire.FeatureQueues, wire.FeatureWriteCache,
			wire.FeatureAsyncEvents} {
			feature(wire.AdminGetFeatures, f, 0)
		}
		if kato := feature(wire.AdminGetFeatures, wire.FeatureKeepAlive, 0); kato != 0 {
			t.Errorf("a keep-alive timeout of %d ms", kato)
		}
		get := wire.Command{Opcode: wire.AdminGetFeatures, CDW10: uint32(wire.FeatureHostID), CDW11: 1,
			SGL: r.keyed(16)}
		if done := r.ask(get, nil); done.Status != wire.Success ||
			!bytes.Equal(r.data.Bytes()[:16], connectData.HostID[:]) {
			t.Errorf("%+v: host identifier % x", done, r.data.Bytes()[:16])
		}
	})
}
