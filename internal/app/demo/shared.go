// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// SharedMemory is the kind of the devices over shared memory.
const SharedMemory = "shm"

// openShared opens a device over shared memory, beside the demo's own devices.
func openShared(name string) (*verbs.Device, error) { return kinds.Open(name, &kinds.Options{}) }

// share connects the two processes over shared memory too, where there is any. end closes this process's device.
func (d *Demo) share(ctx context.Context) (end func(), err error) {
	end = func() {}
	if d.Kind.Name == SharedMemory {
		d.shared = d.side
		return end, nil
	}
	kind, err := kinds.Find(SharedMemory)
	if err != nil {
		return end, err
	}
	names, err := (&Demo{Kind: kind}).deviceNames()
	if err != nil {
		return end, err
	}
	dev, rest, err := openFirst(openShared, names)
	if errors.Is(err, verbs.ErrNotSupported) {
		return end, nil
	}
	if err != nil {
		return end, err
	}
	end = func() { dev.Close() }
	s, err := newSide(first, dev)
	if err != nil {
		return end, err
	}
	s.local.Candidates = rest
	answer, err := d.link.ask(ctx, message{Ask: askHello, Shared: true, Hello: &s.local}, d.side.idle)
	if err == nil && answer.Hello == nil {
		err = errors.New("the second process did not introduce itself")
	}
	if err == nil {
		err = s.connect(ctx, answer.Hello)
	}
	d.shared = s
	return end, err
}

// stopped READs from the second process while a signal has stopped it.
func (d *Demo) stopped(ctx context.Context) (*StoppedReport, error) {
	if d.shared == nil || d.peer == nil || kinds.Checking() { // the checker has targets carry out all operations
		return nil, nil
	}
	s := d.shared
	st := &step{Op: verbs.OpRead, QP: verbs.RC, Size: streamSize, Count: d.effort().window, Stream: true,
		Shared: s != d.side, Seed: randomPattern()}
	r := &StoppedReport{Device: s.remote.Device, Reads: st.Count, Size: st.Size}
	// The first READ may need the target: a connection is made, and memory handed over.
	first := *st
	first.Count = 1
	if _, _, err := d.step(ctx, &first); err != nil {
		return nil, err
	}
	_, err := d.both(ctx, st, func() error {
		goOn, err := d.peer.stop(ctx)
		if err != nil {
			return err
		}
		defer goOn()
		before, start := d.peer.processorTime(), time.Now()
		if _, err := s.measure(ctx, st); err != nil {
			return err
		}
		r.Elapsed = time.Since(start)
		if r.VerifiedBytes, err = s.verify(st); err != nil {
			return err
		}
		if used := d.peer.processorTime().since(before); used.known {
			ns := float64(used.time)
			r.TargetNs = &ns
		}
		return nil
	})
	return r, err
}
