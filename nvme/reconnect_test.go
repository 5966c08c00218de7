// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// powered is a medium as one life of a target sees it: without power it takes nothing more.
type powered struct {
	*medium
	mu  sync.Mutex
	off bool
}

var errOff = errors.New("no power")

func (p *powered) ReadAt(b []byte, off int64) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return 0, errOff
	}
	return p.medium.ReadAt(b, off)
}

func (p *powered) WriteAt(b []byte, off int64) (int, error) {
	p.wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return 0, errOff
	}
	return p.medium.WriteAt(b, off)
}

func (p *powered) Sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return errOff
	}
	return p.medium.Sync()
}

// powerOff takes the power from a life, and a part of its cache from the medium.
func (p *powered) powerOff(r *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	p.lose(r)
}

func newMedium(size int) *medium {
	return &medium{now: make([]byte, size), flushed: map[int64][]byte{}}
}

// serveMedium begins a life of a target, at an address.
func serveMedium(dev *verbs.Device, address string, p *powered, o nvme.TargetOptions) (*nvme.Target,
	*nvme.Port, error) {
	t := nvme.NewTarget(o)
	sub, err := t.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	if err == nil {
		err = sub.AddNamespace(nvme.Namespace{ID: 1, Disk: p, Size: int64(len(p.now)), Writable: true})
	}
	if err != nil {
		return nil, nil, err
	}
	port, err := t.Listen(context.Background(), dev, address)
	return t, port, err
}

// persist is a program on a host whose target may lose its power at any time. A block is the last one that was written
// or, until a flush succeeds, one of the blocks before. A flush that fails because the cache may be lost has the
// program write again what was not flushed.
func persist(ctx context.Context, d *nvme.Disk, r *rand.Rand, from int64, m model, steps int) error {
	last := func(i int) []byte { return m[i][len(m[i])-1] }
	// A disk whose power is gone may still say so.
	try := func(f func() error) error {
		for {
			err := f()
			if !errors.Is(err, wire.WriteFault) && !errors.Is(err, wire.UnrecoveredReadError) {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	write := func(b []byte, at int64) error {
		return try(func() error {
			_, err := d.Write(ctx, b, at)
			return err
		})
	}
	flush := func() error {
		for {
			err := try(func() error { return d.Flush(ctx) })
			if !errors.Is(err, nvme.ErrWriteCacheLost) {
				return err
			}
			for i := range m {
				if len(m[i]) > 1 {
					if err := write(last(i), from+int64(i)*mediumBlock); err != nil {
						return err
					}
				}
			}
		}
	}
	for step := range steps {
		first := r.IntN(len(m))
		n := 1 + r.IntN(min(len(m)-first, 40))
		at := from + int64(first)*mediumBlock
		b := make([]byte, n*mediumBlock)
		switch k := r.IntN(5); {
		case k == 0 || step == steps-1:
			if err := flush(); err != nil {
				return err
			}
			for i := range m {
				m[i] = [][]byte{last(i)}
			}
		case k < 3:
			if err := try(func() error {
				_, err := d.Read(ctx, b, at)
				return err
			}); err != nil {
				return err
			}
			if err := m.check(first, b); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		default:
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			for i := range n {
				m[first+i] = append(m[first+i], bytes.Clone(b[i*mediumBlock:][:mediumBlock]))
			}
			if err := write(b, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// A target that is closed and started again while hosts write, and that loses a part of what it has not flushed each
// time: the host connects again, repeats the commands that were in flight, and the data that it has flushed is there.
func TestReconnect(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const workers, blocks = 3, 64
		m := newMedium(workers * blocks * mediumBlock)
		targets, hosts := rdmatest.PairOf(t, kind)
		life := &powered{medium: m}
		target, port, err := serveMedium(targets, ":0", life, nvme.TargetOptions{})
		ok(t, err)
		defer func() { target.Close() }()
		again := make(chan struct{}, 100)
		c, err := nvme.Dial(within(t), hosts, port.Addr().String(), diskNQN, nvme.HostOptions{NQN: hostNQN, Queues: 2,
			KeepAlive: keepAlive, Timeout: patience, ReconnectDelay: 10 * time.Millisecond,
			Changed: func(ids []uint32) {
				if ids == nil {
					again <- struct{}{}
				}
			}})
		ok(t, err)
		defer c.Close()
		var all sync.WaitGroup
		var stop atomic.Bool
		models := [workers]model{}
		for i := range workers {
			models[i] = newModel(blocks)
			d, err := c.Open(within(t), 1)
			ok(t, err)
			all.Go(func() {
				r := rand.New(rand.NewPCG(3, uint64(i)))
				for !stop.Load() {
					if err := persist(t.Context(), d, r, int64(i*blocks*mediumBlock), models[i], 10); err != nil {
						t.Errorf("worker %d: %v", i, err)
						return
					}
				}
			})
		}
		loses := rand.New(rand.NewPCG(4, 4))
		for range 3 {
			time.Sleep(5 * time.Millisecond)
			life.powerOff(loses)
			ok(t, target.Close())
			life = &powered{medium: m}
			target, _, err = serveMedium(targets, port.Addr().String(), life, nvme.TargetOptions{})
			ok(t, err)
			select {
			case <-again:
			case <-time.After(patience):
				t.Fatal("the host does not connect again")
			}
		}
		stop.Store(true)
		all.Wait()
		life.powerOff(loses)
		for i, model := range models {
			if err := model.check(0, m.now[i*blocks*mediumBlock:][:blocks*mediumBlock]); err != nil {
				t.Errorf("worker %d, after power was lost: %v", i, err)
			}
		}
	})
}

// persistAll opens a disk for each model, calls opened, and persists to all parts of the medium at once, to the last
// one by an Async.
func persistAll(ctx context.Context, open func(context.Context, uint32) (*nvme.Disk, error), opened func(),
	seeds []uint64, models []model) error {
	disks := make([]*nvme.Disk, len(models))
	for i := range disks {
		var err error
		if disks[i], err = open(ctx, 1); err != nil {
			return err
		}
	}
	opened()
	errs := make(chan error, len(disks))
	for i, d := range disks {
		go func() {
			r, from := rand.New(rand.NewPCG(seeds[i], 2)), int64(i*len(models[i])*mediumBlock)
			if i < len(disks)-1 {
				errs <- persist(ctx, d, r, from, models[i], 40)
			} else {
				errs <- persistAsync(ctx, d, r, from, models[i], 300, 1+r.IntN(40), false)
			}
		}()
	}
	var all error
	for range disks {
		all = errors.Join(all, <-errs)
	}
	return all
}

// In virtual time, on networks with faults: a target that is closed, or killed, and comes back, and a network that
// parts the two for longer than their connection lasts.
func TestReconnectSeeds(t *testing.T) {
	rdmatest.Run(t, 30, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		dev, c := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets)
		up := func(from, n int) int { return from + w.Rand.IntN(n) }
		const workers = 3
		blocks := up(8, 60)
		m := newMedium(workers * blocks * mediumBlock)
		to := nvme.TargetOptions{QueueDepth: up(32, 40), InCapsule: up(-1, 9000), Queues: up(1, 3)}
		ho := nvme.HostOptions{QueueDepth: up(2, 30), Queues: up(1, 3), MaxData: up(4096, 30000), NQN: hostNQN,
			HostID: [16]byte{1}, KeepAlive: time.Duration(up(1, 10)) * time.Second}
		loses := rand.New(rand.NewPCG(w.Rand.Uint64(), 1))
		if w.Rand.IntN(2) == 0 {
			m.slow = rand.New(rand.NewPCG(w.Rand.Uint64(), 2))
		}
		life := &powered{medium: m}
		target, _, err := serveMedium(dev, ":4420", life, to)
		if err != nil {
			w.Fatal(err)
		}
		seeds, models := [workers]uint64{}, [workers]model{}
		for i := range workers {
			seeds[i], models[i] = w.Rand.Uint64(), newModel(blocks)
		}
		connected := make(chan struct{})
		done := sync.OnceFunc(func() { close(connected) })
		program := client.Go(func(ctx context.Context) error {
			defer done()
			ctrl, err := nvme.Dial(ctx, c, server.Addr().String()+":4420", diskNQN, ho)
			if err != nil {
				return err
			}
			defer ctrl.Close()
			all := persistAll(ctx, ctrl.Open, done, seeds[:], models[:])
			life.powerOff(loses) // before the host shuts the controller down, which flushes
			return all
		})
		<-connected
		for range up(1, 3) {
			w.Sleep(time.Duration(up(1, 60_000)) * time.Microsecond)
			switch w.Rand.IntN(3) {
			case 0:
				w.Say("the network parts")
				w.Partition(server, client, true)
				w.Sleep(time.Duration(up(1, 40)) * time.Second)
				w.Partition(server, client, false)
				continue
			case 1:
				w.Say("the target is closed")
				life.powerOff(loses)
				target.Close()
			default:
				w.Say("the target is killed")
				life.powerOff(loses)
				server.Kill()
				target.Close()
				dev = server.RoCE()
			}
			w.Sleep(time.Duration(up(1, 5000)) * time.Millisecond)
			life = &powered{medium: m}
			if target, _, err = serveMedium(dev, ":4420", life, to); err != nil {
				w.Fatal(err)
			}
		}
		if err := program.Wait(); err != nil {
			w.Fatal(err)
		}
		target.Close()
		for i, model := range models {
			if err := model.check(0, m.now[i*blocks*mediumBlock:][:blocks*mediumBlock]); err != nil {
				w.Fatalf("worker %d, after power was lost: %v", i, err)
			}
		}
	})
}

// A target that is killed and comes back while its host connects again knows nothing of the host's admin queue, and
// refuses an I/O queue of its controller. The host tries again.
func TestTargetAgain(t *testing.T) {
	rdmatest.Run(t, 20, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		dev, c := server.RoCE(), client.RoCE()
		for _, ends := range [][2]*rdmatest.Host{{server, client}, {client, server}} {
			w.SetPath(ends[0], ends[1], func(p *rdmatest.Path) { p.Delay = 20 * time.Millisecond })
		}
		life := &powered{medium: newMedium(4096)}
		begin := func() (target *nvme.Target) {
			target, _, err := serveMedium(dev, ":4420", life, nvme.TargetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return target
		}
		target := begin()
		opened := make(chan struct{})
		program := client.Go(func(ctx context.Context) error {
			ctrl, err := nvme.Dial(ctx, c, server.Addr().String()+":4420", diskNQN,
				nvme.HostOptions{KeepAlive: time.Second, ReconnectDelay: 100 * time.Millisecond})
			if err != nil {
				return err
			}
			defer ctrl.Close()
			d, err := ctrl.Open(ctx, 1)
			if err != nil {
				return err
			}
			close(opened)
			time.Sleep(10 * time.Second)
			_, err = d.Read(ctx, make([]byte, 512), 0)
			return err
		})
		<-opened
		target.Close()
		target = begin()
		w.Sleep(time.Duration(180+w.Rand.IntN(450)) * time.Millisecond) // while it connects again
		server.Kill()
		target.Close()
		dev = server.RoCE()
		target = begin()
		if err := program.Wait(); err != nil {
			w.Fatal(err)
		}
		target.Close()
	})
}

// Without a connection a command waits as long as its context, fails fast if that is asked for, and fails for good when
// the controller is given up.
func TestLossTimeouts(t *testing.T) {
	rdmatest.Run(t, 3, func(w *rdmatest.World) {
		server, client, dial := world(w)
		c, err := dial(client, nvme.HostOptions{KeepAlive: 5 * time.Second, FastFail: 20 * time.Second,
			LossTimeout: time.Minute, Timeout: 5 * time.Second})
		if err != nil {
			w.Fatal(err)
		}
		err = client.Go(func(ctx context.Context) error {
			d, err := c.Open(ctx, 1)
			if err != nil {
				return err
			}
			server.PowerOff()
			w.Sleep(10 * time.Second) // the host knows
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			start := time.Now()
			if _, err := d.Read(short, make([]byte, 512), 0); !errors.Is(err, context.DeadlineExceeded) ||
				time.Since(start) != time.Second {
				return fmt.Errorf("a context of a second: %v after %v", err, time.Since(start))
			}
			if _, err = d.Read(ctx, make([]byte, 512), 0); !errors.Is(err, nvme.ErrConnectionLost) ||
				time.Since(start) > 20*time.Second || c.Err() != nil {
				return fmt.Errorf("fast failure: %v after %v", err, time.Since(start))
			}
			<-c.Done()
			if took := time.Since(start); took < 40*time.Second || took > time.Minute {
				return fmt.Errorf("given up after %v", took)
			}
			if _, err := d.Read(ctx, make([]byte, 512), 0); !errors.Is(err, nvme.ErrConnectionLost) ||
				!errors.Is(c.Err(), nvme.ErrConnectionLost) {
				return fmt.Errorf("given up: %v, %v", err, c.Err())
			}
			return c.Close()
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	})
}

// A target that does not have the host's subsystem any more, or does not let it in, is not asked again. A namespace
// that has become another disk is not written.
func TestReconnectRefused(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		m := newMedium(64 << 10)
		targets, hosts := rdmatest.PairOf(t, kind)
		target, port, err := serveMedium(targets, ":0", &powered{medium: m}, nvme.TargetOptions{})
		ok(t, err)
		c, err := nvme.Dial(within(t), hosts, port.Addr().String(), diskNQN, nvme.HostOptions{NQN: hostNQN,
			KeepAlive: keepAlive, Timeout: patience, ReconnectDelay: time.Millisecond})
		ok(t, err)
		defer c.Close()
		d, err := c.Open(within(t), 1)
		ok(t, err)
		start := func(uuid [16]byte, nqn string) {
			t.Helper()
			ok(t, target.Close())
			target = nvme.NewTarget(nvme.TargetOptions{})
			sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: nqn, AnyHost: true})
			ok(t, err)
			ok(t, sub.AddNamespace(nvme.Namespace{ID: 1, Disk: m, Size: 64 << 10, Writable: true, UUID: uuid}))
			_, err = target.Listen(t.Context(), targets, port.Addr().String())
			ok(t, err)
		}
		start([16]byte{1}, diskNQN)
		if _, err := d.Write(within(t), make([]byte, 512), 0); !errors.Is(err, wire.InvalidNamespace) {
			t.Error("another disk:", err)
		}
		d, err = c.Open(within(t), 1)
		ok(t, err)
		_, err = d.Write(within(t), make([]byte, 512), 0)
		ok(t, err)
		start([16]byte{1}, diskNQN+"2")
		select {
		case <-c.Done():
		case <-time.After(patience):
			t.Fatal("a refused host goes on")
		}
		if !errors.Is(c.Err(), wire.ConnectInvalidParameters) || !errors.Is(c.Err(), nvme.ErrConnectionLost) {
			t.Error(c.Err())
		}
		ok(t, target.Close())
	})
}

// A host whose connection is lost has no other controller as long as a disk works on its commands: writes that were in
// flight do not overwrite later ones.
func TestLateWrite(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		slow := &slowWrites{Memory: nvme.NewMemory(64 << 10), begun: make(chan struct{}, 10), pass: make(chan struct{})}
		s := set(t, kind, nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: slow, Size: 64 << 10, Writable: true})
		o := nvme.HostOptions{NQN: hostNQN, HostID: [16]byte{1}}
		c := s.dial(t, o)
		d, err := c.Open(within(t), 1)
		ok(t, err)
		written := make(chan error, 1)
		go func() {
			_, err := d.WriteAt(make([]byte, 512), 0)
			written <- err
		}()
		<-slow.begun
		c.Close()
		if err := <-written; !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		for busy := 0; busy < 3; { // as soon as the target has heard of the end
			c, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, o)
			if err == nil && busy == 0 {
				ok(t, c.Close())
				continue
			}
			if busy++; !errors.Is(err, wire.ConnectControllerBusy) {
				t.Fatal("while the disk works:", err)
			}
		}
		o.HostID[0]++
		s.dial(t, o)
		close(slow.pass)
		o.HostID[0]--
		for ctx := within(t); ; time.Sleep(time.Millisecond) {
			c, err := nvme.Dial(ctx, s.dev, s.addr(), diskNQN, o)
			if errors.Is(err, wire.ConnectControllerBusy) {
				continue
			}
			ok(t, err)
			c.Close()
			return
		}
	})
}

// slowWrites lets no write pass before it is told to.
type slowWrites struct {
	*nvme.Memory
	begun, pass chan struct{}
}

func (d *slowWrites) WriteAt(b []byte, off int64) (int, error) {
	d.begun <- struct{}{}
	<-d.pass
	return d.Memory.WriteAt(b, off)
}
