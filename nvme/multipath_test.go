// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// paths makes a setting with two ports, and connects a host by both. Changes of paths are sent to the channel.
func paths(t *testing.T, kind string, policy nvme.IOPolicy, alive time.Duration,
	list ...nvme.Namespace) (*setting, *nvme.Port, *nvme.Multipath, <-chan nvme.PathStatus) {
	t.Helper()
	s := set(t, kind, nvme.TargetOptions{}, list...)
	other, err := s.target.Listen(t.Context(), s.targets, ":0")
	ok(t, err)
	changes := make(chan nvme.PathStatus, 1000)
	m, err := nvme.DialMultipath(within(t), []nvme.Path{{Device: s.dev, Address: s.addr()},
		{Device: s.dev, Address: other.Addr().String()}}, diskNQN, nvme.HostOptions{NQN: hostNQN, Timeout: patience,
		KeepAlive: alive, ReconnectDelay: time.Millisecond},
		nvme.MultipathOptions{Policy: policy, PathChanged: func(p nvme.PathStatus) { changes <- p }})
	ok(t, err)
	t.Cleanup(func() { m.Close() })
	return s, other, m, changes
}

// until waits for a change of a path.
func until(t *testing.T, changes <-chan nvme.PathStatus, what string, is func(nvme.PathStatus) bool) {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case p := <-changes:
			if is(p) {
				return
			}
		case <-late:
			t.Fatal("no path is said to be", what)
		}
	}
}

// A host uses the optimized path, the other one when that is inaccessible or gone, and tells of each change.
func TestMultipath(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s, other, m, changes := paths(t, kind, nvme.RoundRobin, keepAlive, disk(1, 64<<10))
		d, err := m.Open(within(t), 1)
		ok(t, err)
		use := func(when string) {
			t.Helper()
			for ctx := within(t); ; {
				for i := range 8 {
					b, want := make([]byte, 512), []byte(fmt.Sprintf("%-512s", when))
					if _, err := d.Write(within(t), want, int64(i)*512); err != nil {
						t.Fatalf("%s: %v", when, err)
					}
					if _, err := d.Read(within(t), b, int64(i)*512); err != nil || string(b) != string(want) {
						t.Fatalf("%s: %v, %q", when, err, b[:20])
					}
				}
				err := d.Flush(ctx)
				if errors.Is(err, nvme.ErrWriteCacheLost) && ctx.Err() == nil {
					continue // a busy machine has missed a keep-alive: the program writes again
				}
				ok(t, err)
				return
			}
		}
		at := func(p *nvme.Port, is func(nvme.PathStatus) bool) func(nvme.PathStatus) bool {
			address := p.Addr().String()
			return func(s nvme.PathStatus) bool { return s.Address == address && is(s) }
		}
		state := func(want wire.ANAState) func(nvme.PathStatus) bool {
			return func(s nvme.PathStatus) bool { return s.Access[1] == want }
		}
		use("both are optimized")
		for _, want := range []wire.ANAState{wire.ANAInaccessible, wire.ANAChange, wire.ANANonOptimized} {
			ok(t, other.SetAccess(1, want))
			use("the other is " + want.String())
			until(t, changes, want.String(), at(other, state(want)))
		}
		ok(t, s.port.SetAccess(1, wire.ANAInaccessible))
		use("one is inaccessible, the other non-optimized")
		until(t, changes, "inaccessible", at(s.port, state(wire.ANAInaccessible)))
		ok(t, s.port.SetAccess(1, wire.ANAOptimized))
		until(t, changes, "optimized", at(s.port, state(wire.ANAOptimized)))
		ok(t, s.port.Close())
		use("one is gone")
		until(t, changes, "connecting", at(s.port, func(p nvme.PathStatus) bool {
			return p.State == nvme.PathConnecting && p.Err != nil
		}))
		again, err := s.target.Listen(t.Context(), s.targets, s.addr())
		ok(t, err)
		until(t, changes, "live", at(again, func(p nvme.PathStatus) bool { return p.State == nvme.PathLive }))
		ok(t, other.Close())
		use("the other is gone")
		list := m.Paths()
		for ctx := within(t); list[0].State != nvme.PathLive && ctx.Err() == nil; list = m.Paths() {
			time.Sleep(time.Millisecond) // a busy machine may miss a keep-alive
		}
		if len(list) != 2 || list[0].State != nvme.PathLive || list[1].Address != other.Addr().String() {
			t.Errorf("%+v", list)
		}
	})
}

// Slow and fast reads in turn: round-robin has all slow ones on one path, queue-depth half of them on each. A path that
// reaches the namespace less well has none.
func TestIOPolicy(t *testing.T) {
	const reads = 10
	for policy, want := range map[nvme.IOPolicy][2]int{nvme.RoundRobin: {reads, 0},
		nvme.QueueDepth: {reads / 2, reads / 2}} {
		t.Run(string(policy), func(t *testing.T) {
			slow := &blocking{Memory: nvme.NewMemory(4096), pass: make(chan struct{})}
			_, other, m, changes := paths(t, "shm", policy, patience,
				nvme.Namespace{ID: 1, Disk: slow, Size: 4096}, disk(2, 4096))
			var disks [2]*nvme.Disk
			for i := range disks {
				var err error
				disks[i], err = m.Open(within(t), uint32(i+1))
				ok(t, err)
			}
			var all sync.WaitGroup
			defer all.Wait()
			read := func(d *nvme.Disk) {
				if _, err := d.Read(within(t), make([]byte, 512), 0); err != nil {
					t.Error(err)
				}
			}
			busy := func() (n [2]int) {
				list := m.Paths()
				n = [2]int{list[0].InFlight, list[1].InFlight}
				return [2]int{max(n[0], n[1]), min(n[0], n[1])}
			}
			begin := func(fast bool) {
				for i := range reads {
					all.Go(func() { read(disks[0]) })
					for late := time.Now().Add(patience); int(slow.waiting.Load()) <= i; time.Sleep(time.Millisecond) {
						if time.Now().After(late) {
							t.Fatal("a read does not come to the disk")
						}
					}
					if fast {
						read(disks[1])
					}
				}
			}
			begin(true)
			if got := busy(); got != want {
				t.Error(got)
			}
			for range reads {
				slow.pass <- struct{}{}
			}
			all.Wait()
			defer close(slow.pass)
			slow.waiting.Store(0)
			ok(t, other.SetAccess(1, wire.ANANonOptimized))
			until(t, changes, "non-optimized",
				func(p nvme.PathStatus) bool { return p.Access[1] == wire.ANANonOptimized })
			begin(false)
			if got := busy(); got != [2]int{reads, 0} {
				t.Error("a path is better:", got)
			}
		})
	}
}

// blocking is a disk whose reads wait.
type blocking struct {
	*nvme.Memory
	waiting atomic.Int32
	pass    chan struct{}
}

func (d *blocking) ReadAt(b []byte, off int64) (int, error) {
	d.waiting.Add(1)
	<-d.pass
	return d.Memory.ReadAt(b, off)
}

// A host with several paths hears of a new namespace, and reaches it by each, also in a group that is new. Where paths
// lead to different disks of one number, it is not opened.
func TestMultipathNamespaces(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{}, disk(1, 4096))
	twin := nvme.NewTarget(nvme.TargetOptions{})
	defer twin.Close()
	sub, err := twin.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	ok(t, err)
	ok(t, sub.AddNamespace(disk(1, 4096)))
	port, err := twin.Listen(t.Context(), s.targets, ":0")
	ok(t, err)
	changed := make(chan []uint32, 10)
	m, err := nvme.DialMultipath(within(t), []nvme.Path{{Device: s.dev, Address: s.addr()},
		{Device: s.dev, Address: port.Addr().String()}}, diskNQN, nvme.HostOptions{NQN: hostNQN, Timeout: patience,
		KeepAlive: patience, Changed: func(ids []uint32) { changed <- ids }}, nvme.MultipathOptions{})
	ok(t, err)
	defer m.Close()
	for _, sub := range []*nvme.Subsystem{s.sub, sub} {
		n := disk(2, 4096)
		n.Group = 5
		ok(t, sub.AddNamespace(n))
		select {
		case ids := <-changed:
			if len(ids) != 1 || ids[0] != 2 {
				t.Error(ids)
			}
		case <-time.After(patience):
			t.Fatal("no word of the new namespace")
		}
	}
	d, err := m.Open(within(t), 2)
	ok(t, err)
	for range 4 {
		_, err := d.Read(within(t), make([]byte, 4096), 0)
		ok(t, err)
	}
	n := disk(3, 4096)
	ok(t, s.sub.AddNamespace(n))
	n.UUID = [16]byte{1}
	ok(t, sub.AddNamespace(n))
	if _, err := m.Open(within(t), 3); !errors.Is(err, wire.InvalidNamespace) {
		t.Error("two disks as one:", err)
	}
}

// A namespace that no path reaches is waited for as long as the host likes; wrong options are refused.
func TestNoPath(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{}, disk(1, 4096))
	by := []nvme.Path{{Device: s.dev, Address: s.addr()}}
	o := nvme.HostOptions{NQN: hostNQN, KeepAlive: patience, Timeout: patience, FastFail: 10 * time.Millisecond}
	m, err := nvme.DialMultipath(within(t), by, diskNQN, o, nvme.MultipathOptions{})
	ok(t, err)
	defer m.Close()
	d, err := m.Open(within(t), 1)
	ok(t, err)
	ok(t, s.port.SetAccess(1, wire.ANAInaccessible))
	if _, err := d.ReadAt(make([]byte, 512), 0); !errors.Is(err, nvme.ErrNoPath) {
		t.Error(err)
	}
	ok(t, s.port.SetAccess(1, wire.ANANonOptimized))
	for ctx := within(t); ; {
		if _, err := d.Read(ctx, make([]byte, 512), 0); err == nil {
			break
		} else if !errors.Is(err, nvme.ErrNoPath) {
			t.Fatal(err)
		}
	}
	for _, list := range [][]nvme.Path{nil, {{Device: s.dev, Address: "127.0.0.1:1"}}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if m, err := nvme.DialMultipath(ctx, list, diskNQN, o, nvme.MultipathOptions{}); err == nil {
			m.Close()
			t.Error("connected by", list)
		}
		cancel()
	}
	if _, err := nvme.DialMultipath(within(t), by, diskNQN, o, nvme.MultipathOptions{Policy: "numa"}); err == nil {
		t.Error("policy numa")
	}
	if _, err := nvme.DialMultipath(within(t), by, diskNQN+"2", o, nvme.MultipathOptions{}); !errors.Is(err,
		wire.ConnectInvalidParameters) {
		t.Error("another subsystem:", err)
	}
}

// In virtual time, on networks with faults: a target at two hosts, of which one is parted from the program for longer
// than a connection lasts, or reaches the namespace in another way, or both. A block is the one that was written last,
// and no write is lost with a path.
func TestMultipathSeeds(t *testing.T) {
	rdmatest.Run(t, 30, func(w *rdmatest.World) {
		client := w.Host("client")
		servers := []*rdmatest.Host{w.Host("left"), w.Host("right")}
		dev := client.RoCE()
		w.Draw(rdmatest.Packets)
		up := func(from, n int) int { return from + w.Rand.IntN(n) }
		const workers = 3
		blocks := up(8, 60)
		m := newMedium(workers * blocks * mediumBlock)
		policy := []nvme.IOPolicy{nvme.RoundRobin, nvme.QueueDepth}[w.Rand.IntN(2)]
		ho := nvme.HostOptions{QueueDepth: up(2, 30), Queues: up(1, 3), MaxData: up(4096, 30000), NQN: hostNQN,
			HostID: [16]byte{1}, KeepAlive: time.Duration(up(1, 10)) * time.Second}
		loses := rand.New(rand.NewPCG(w.Rand.Uint64(), 1))
		if w.Rand.IntN(2) == 0 {
			m.slow = rand.New(rand.NewPCG(w.Rand.Uint64(), 2))
		}
		life := &powered{medium: m}
		target, _, err := serveMedium(servers[0].RoCE(), ":4420", life, nvme.TargetOptions{Queues: up(1, 3)})
		if err != nil {
			w.Fatal(err)
		}
		defer target.Close()
		var by []nvme.Path
		port, err := target.Listen(servers[1].Context(), servers[1].RoCE(), ":4420")
		if err != nil {
			w.Fatal(err)
		}
		for _, s := range servers {
			by = append(by, nvme.Path{Device: dev, Address: s.Addr().String() + ":4420"})
		}
		seeds, models := [workers]uint64{}, [workers]model{}
		for i := range workers {
			seeds[i], models[i] = w.Rand.Uint64(), newModel(blocks)
		}
		connected := make(chan struct{})
		done := sync.OnceFunc(func() { close(connected) })
		program := client.Go(func(ctx context.Context) error {
			defer done()
			host, err := nvme.DialMultipath(ctx, by, diskNQN, ho, nvme.MultipathOptions{Policy: policy})
			if err != nil {
				return err
			}
			defer host.Close()
			all := persistAll(ctx, host.Open, done, seeds[:], models[:])
			life.powerOff(loses) // before the host shuts the controllers down, which flushes
			return all
		})
		<-connected
		states := []wire.ANAState{wire.ANAOptimized, wire.ANANonOptimized, wire.ANAInaccessible, wire.ANAChange}
		for range up(1, 4) {
			w.Sleep(time.Duration(up(1, 60_000)) * time.Microsecond)
			access, part := w.Rand.IntN(2) == 0, w.Rand.IntN(2) == 0
			if access {
				state := states[w.Rand.IntN(len(states))]
				w.Say("the right path is %v", state)
				if err := port.SetAccess(1, state); err != nil {
					w.Fatal(err)
				}
			}
			if part {
				s := servers[w.Rand.IntN(2)]
				w.Say("a path parts")
				w.Partition(s, client, true)
				w.Sleep(time.Duration(up(1, 40)) * time.Second)
				w.Partition(s, client, false)
			}
		}
		if err := program.Wait(); err != nil {
			w.Fatal(err)
		}
		for i, model := range models {
			if err := model.check(0, m.now[i*blocks*mediumBlock:][:blocks*mediumBlock]); err != nil {
				w.Fatalf("worker %d, after power was lost: %v", i, err)
			}
		}
	})
}

// A write that a disk still works on when its path is lost is not carried out after its repetition by another path.
func TestMultipathLateWrite(t *testing.T) {
	rdmatest.Run(t, 3, func(w *rdmatest.World) {
		client, left, right := w.Host("client"), w.Host("left"), w.Host("right")
		slow := &slowWrites{Memory: nvme.NewMemory(4096), begun: make(chan struct{}, 10), pass: make(chan struct{})}
		target := nvme.NewTarget(nvme.TargetOptions{})
		defer target.Close()
		sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
		if err == nil {
			err = sub.AddNamespace(nvme.Namespace{ID: 1, Disk: slow, Size: 4096, Writable: true})
		}
		var paths []nvme.Path
		var ports []*nvme.Port
		dev := client.RoCE()
		for _, h := range []*rdmatest.Host{left, right} {
			port, e := target.Listen(h.Context(), h.RoCE(), ":4420")
			err = errors.Join(err, e)
			ports = append(ports, port)
			paths = append(paths, nvme.Path{Device: dev, Address: h.Addr().String() + ":4420"})
		}
		if err != nil {
			w.Fatal(err)
		}
		// The path to the right is not taken before the one to the left is lost.
		if err := ports[1].SetAccess(1, wire.ANANonOptimized); err != nil {
			w.Fatal(err)
		}
		written := make(chan error, 1)
		program := client.Go(func(ctx context.Context) error {
			m, err := nvme.DialMultipath(ctx, paths, diskNQN, nvme.HostOptions{KeepAlive: 20 * time.Second},
				nvme.MultipathOptions{})
			if err != nil {
				return err
			}
			defer m.Close()
			d, err := m.Open(ctx, 1)
			if err != nil {
				return err
			}
			_, err = d.Write(ctx, make([]byte, 512), 0)
			written <- err
			return err
		})
		<-slow.begun
		w.Partition(left, client, true)
		w.Sleep(55 * time.Second) // the path is lost, and then the target has given it up
		if len(slow.begun) != 0 {
			w.Fatal("the write was repeated while the disk worked on it")
		}
		slow.pass <- struct{}{}
		<-slow.begun
		slow.pass <- struct{}{}
		if err := <-written; err != nil {
			w.Fatal(err)
		}
		if err := program.Wait(); err != nil {
			w.Fatal(err)
		}
	})
}
