// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// medium is a disk with a cache, which loses power: each block that was written and not flushed is then the old one or
// any of the blocks that were written since.
type medium struct {
	mu      sync.Mutex
	now     []byte           // with the cache
	flushed map[int64][]byte // blocks that differ from now: what the medium surely has
	slow    *rand.Rand       // now and then a write takes long; nil: none does
}

const mediumBlock = 512

func (m *medium) ReadAt(b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(b, m.now[off:]), nil
}

func (m *medium) WriteAt(b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := off; at < off+int64(len(b)); at += mediumBlock {
		if m.flushed[at] == nil {
			m.flushed[at] = bytes.Clone(m.now[at : at+mediumBlock])
		}
	}
	return copy(m.now[off:], b), nil
}

// wait waits as long as a write takes.
func (m *medium) wait() {
	if m.slow == nil {
		return
	}
	m.mu.Lock()
	took := time.Duration(0)
	if m.slow.IntN(30) == 0 {
		took = time.Duration(m.slow.IntN(40_000)) * time.Millisecond
	}
	m.mu.Unlock()
	time.Sleep(took)
}

func (m *medium) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.flushed)
	return nil
}

// lose has the medium lose a part of its cache.
func (m *medium) lose(r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := int64(0); at < int64(len(m.now)); at += mediumBlock {
		if old := m.flushed[at]; old != nil && r.IntN(2) == 0 {
			copy(m.now[at:], old)
		}
	}
	clear(m.flushed)
}

// model is a host's knowledge of its part of a disk: by block the contents that a read may find. One element: that one.
type model [][][]byte

func newModel(blocks int) model {
	m := make(model, blocks)
	for i := range m {
		m[i] = [][]byte{make([]byte, mediumBlock)}
	}
	return m
}

// check checks blocks that were read.
func (m model) check(first int, b []byte) error {
	for i := 0; i < len(b); i += mediumBlock {
		at, found := first+i/mediumBlock, false
		for _, may := range m[at] {
			found = found || bytes.Equal(may, b[i:i+mediumBlock])
		}
		if !found {
			return fmt.Errorf("block %d is none of the %d that it may be", at, len(m[at]))
		}
	}
	return nil
}

// play is a program on a host: it writes, reads and flushes its part of a disk, and checks what it reads. It reads the
// block that it has written as long as the target runs; after power was lost it reads one of the blocks written since
// the last flush, or the flushed one.
func play(ctx context.Context, d *nvme.Disk, r *rand.Rand, from int64, now, durable model, steps int) error {
	for range steps {
		first := r.IntN(len(now))
		n := 1 + r.IntN(min(len(now)-first, 40))
		at := from + int64(first)*mediumBlock
		b := make([]byte, n*mediumBlock)
		switch r.IntN(5) {
		case 0:
			if err := d.Flush(ctx); err != nil {
				return err
			}
			for i := range now {
				durable[i] = [][]byte{now[i][0]}
			}
		case 1, 2:
			if _, err := d.Read(ctx, b, at); err != nil {
				return err
			}
			if err := now.check(first, b); err != nil {
				return err
			}
		default:
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if r.IntN(4) == 0 {
				clear(b)
			}
			for i := range n { // it may be there as soon as it is on its way
				durable[first+i] = append(durable[first+i], b[i*mediumBlock:][:mediumBlock])
			}
			if _, err := d.Write(ctx, b, at); err != nil {
				return err
			}
			for i := range n {
				now[first+i] = [][]byte{b[i*mediumBlock:][:mediumBlock]}
			}
		}
	}
	return nil
}

// readImage reads an image in parts that are in flight together.
func readImage(ctx context.Context, c *nvme.Controller, image nvme.Image) error {
	d, err := c.Open(ctx, 2)
	if err != nil {
		return err
	}
	b := make([]byte, len(image))
	if _, err := d.Read(ctx, b, 0); err != nil {
		return err
	}
	if !bytes.Equal(b, image) {
		return errors.New("an image that was read is another one")
	}
	return nil
}

// In virtual time, on networks that lose, repeat and reorder packets and part hosts for a time: each block that is read
// is the one that was written last. Then the target loses its power and comes back: what was flushed is there, and of
// the rest each block is one that was written.
func TestSeeds(t *testing.T) {
	rdmatest.Run(t, 30, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		s, c := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets | rdmatest.Passing)
		up := func(from, n int) int { return from + w.Rand.IntN(n) }
		const workers = 3
		blocks := up(8, 100)
		image := nvme.Image(make([]byte, 64*mediumBlock))
		for i := range image {
			image[i] = byte(w.Rand.Uint32())
		}
		m := &medium{now: make([]byte, workers*blocks*mediumBlock), flushed: map[int64][]byte{}}
		to := nvme.TargetOptions{QueueDepth: up(32, 40), InCapsule: up(-1, 9000), Queues: up(1, 3)}
		ho := nvme.HostOptions{QueueDepth: up(2, 30), Queues: up(1, 3), MaxData: up(4096, 30000), NQN: hostNQN,
			HostID: [16]byte{1}}
		seeds := [workers]uint64{}
		for i := range seeds {
			seeds[i] = w.Rand.Uint64()
		}
		loses := rand.New(rand.NewPCG(w.Rand.Uint64(), 1))
		var now, durable [workers]model
		for i := range workers {
			now[i], durable[i] = newModel(blocks), newModel(blocks)
		}
		life := func(port string, begin func(*nvme.Disk) error) {
			target := nvme.NewTarget(to)
			sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, Hosts: []string{hostNQN}})
			if err == nil {
				err = sub.AddNamespace(nvme.Namespace{ID: 1, Disk: m, Size: int64(len(m.now)), Writable: true,
					Immediate: blocks%2 == 0})
			}
			if err == nil {
				err = sub.AddNamespace(nvme.Namespace{ID: 2, Disk: image, Size: int64(len(image))})
			}
			if err == nil {
				_, err = target.Listen(server.Context(), s, port)
			}
			if err != nil {
				w.Fatal(err)
			}
			defer target.Close()
			err = client.Go(func(ctx context.Context) error {
				ctrl, err := nvme.Dial(ctx, c, server.Addr().String()+port, diskNQN, ho)
				if err != nil {
					return err
				}
				defer ctrl.Close()
				d, err := ctrl.Open(ctx, 1)
				if err != nil {
					return err
				}
				read := make(chan error, 1)
				go func() { read <- readImage(ctx, ctrl, image) }()
				return errors.Join(begin(d), <-read)
			}).Wait()
			if err != nil {
				w.Fatal(err)
			}
		}
		life(":4420", func(d *nvme.Disk) error {
			errs := make(chan error, workers)
			for i := range workers {
				go func() {
					r, from := rand.New(rand.NewPCG(seeds[i], 2)), int64(i*blocks*mediumBlock)
					if i < workers-1 {
						errs <- play(client.Context(), d, r, from, now[i], durable[i], 15)
					} else {
						errs <- persistAsync(client.Context(), d, r, from, durable[i], 60, 1+r.IntN(40), true)
					}
				}()
			}
			var all error
			for range workers {
				all = errors.Join(all, <-errs)
			}
			m.lose(loses) // before the host shuts the controller down, which flushes
			return all
		})
		life(":4421", func(d *nvme.Disk) error {
			b := make([]byte, blocks*mediumBlock)
			for i := range workers {
				if _, err := d.Read(client.Context(), b, int64(i*len(b))); err != nil {
					return err
				}
				if err := durable[i].check(0, b); err != nil {
					return fmt.Errorf("worker %d, after power was lost: %w", i, err)
				}
			}
			return nil
		})
	})
}
