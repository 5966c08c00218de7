// SPDX-License-Identifier: Apache-2.0

// Package demo is both halves of `ramjet demo`: two processes that run each kind of operation with
// real data, and compare every byte.
//
// It also READs the memory of the second process while that is stopped, shows the packets of one WRITE, and measures
// WRITEs over shared memory, over the devices that were asked for, and TCP beside them.
//
// The first process, a [Demo], starts the second one, which runs [Serve]. They exchange lines of
// JSON over the second one's standard input and output. For each step the first process sends its
// parameters, both prepare their memory, then the first one measures, and finally both verify their
// memory. Data is a pattern that both generate from a seed, so neither has to trust the other.
package demo

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Demo is the first process's half: it requests and measures.
type Demo struct {
	Kind     *kinds.Kind       // of both devices, whose addresses the demo chooses
	Spare    []string          // or addresses of devices that are not in use; nil: the demo looks for some
	Fabric   Fabric            // if not nil: of which a cable is pulled in the end
	Open     OpenFunc          // opens the first process's device
	Peer     []string          // command line of the second process, which calls Serve
	Recorded bool              // packets are recorded: little is done, so that the file stays readable
	Progress func(step string) // if not nil: called with the next step

	side   *side
	shared *side // over shared memory; nil: there is none
	link   *link
	peer   *peerProcess // nil in tests, where both halves are in one process
	began  time.Time
}

// OpenFunc opens a device by its name. The demo closes it.
type OpenFunc func(name string) (*verbs.Device, error)

// Run does the demo.
func (d *Demo) Run(ctx context.Context) (*Report, error) {
	d.began = time.Now()
	ctx, stop := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("not done after %s: the machine is too busy for the demo, or something hangs", units.Period(limit)))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names, err := d.deviceNames()
	if err != nil {
		return nil, err
	}
	dev, rest, err := openFirst(d.Open, names)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	if d.side, err = newSide(first, dev); err != nil {
		return nil, err
	}
	child, err := startPeer(ctx, d.Peer, cancel)
	if err != nil {
		return nil, err
	}
	d.link, d.peer = child.link, child
	defer child.end()
	pids := []int{os.Getpid(), child.cmd.Process.Pid}
	before := loadOf(pids...)
	report, err := d.talk(ctx, rest)
	if err != nil {
		return nil, child.explain(ctx, err)
	}
	if others, known := loadOf(pids...).others(before); known {
		report.Others, report.Busy = &others, tooBusy(others)
	}
	report.Elapsed = time.Since(d.began)
	return report, nil
}

// deviceNames returns names of devices for the two processes.
func (d *Demo) deviceNames() (names []string, err error) {
	addresses := d.Spare
	if addresses == nil {
		if addresses, err = d.Kind.Spare(2); err != nil {
			return nil, usage.Errorf("the demo needs two devices: %w", err)
		}
	}
	for _, a := range addresses {
		names = append(names, kinds.Name{Kind: d.Kind, Address: a}.String())
	}
	return names, nil
}

// openFirst opens the first free device. rest are the names that were not tried.
func openFirst(open OpenFunc, names []string) (dev *verbs.Device, rest []string, err error) {
	err = errors.New("no device to use: the demo needs two of this host")
	for i, name := range names {
		if dev, err = open(name); err == nil {
			return dev, names[i+1:], nil
		}
	}
	return nil, nil, err
}

// talk connects to the second process and runs all steps.
func (d *Demo) talk(ctx context.Context, rest []string) (*Report, error) {
	d.side.local.Candidates = rest
	answer, err := d.link.ask(ctx, message{Ask: askHello, Hello: &d.side.local}, nil)
	if err != nil {
		return nil, err
	}
	if answer.Hello == nil {
		return nil, errors.New("the second process did not introduce itself")
	}
	if err := d.side.connect(ctx, answer.Hello); err != nil {
		return nil, err
	}
	port, err := d.side.dev.Port(1)
	if err != nil {
		return nil, err
	}
	report := &Report{Devices: [2]string{d.side.local.Device, answer.Hello.Device}, Kind: d.Kind.Name,
		Over: d.Kind.Text, Kernel: d.Kind.Hardware, Needs: d.Kind.Needs, PathMTU: port.ActiveMTU.Bytes(),
		Recorded: d.Recorded}
	e := d.effort()
	for _, st := range e.rows(d.side.can) {
		d.progress(st.String())
		row, err := d.row(ctx, &st, e)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", &st, err)
		}
		report.Rows = append(report.Rows, *row)
	}
	end, err := d.share(ctx)
	if err != nil {
		return nil, fmt.Errorf("over shared memory: %w", err)
	}
	defer end()
	d.progress("a READ from a process that is stopped")
	if report.Stopped, err = d.stopped(ctx); err != nil {
		return nil, fmt.Errorf("READs from a process that is stopped: %w", err)
	}
	d.progress("the packets of a WRITE")
	if report.Packets, err = d.packets(ctx); err != nil {
		return nil, fmt.Errorf("the packets of a WRITE: %w", err)
	}
	d.progress("speed")
	if report.Speed, err = d.speeds(ctx); err != nil {
		return nil, fmt.Errorf("speed: %w", err)
	}
	if d.Fabric != nil {
		d.progress("a cable is pulled")
		if report.Cable, err = d.cable(ctx); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// row runs one step several times.
func (d *Demo) row(ctx context.Context, st *step, e effort) (*Row, error) {
	start, repeat := time.Now(), e.messages/st.Count
	if st.Stream {
		repeat = e.streams
	}
	row := &Row{Operation: opName(st.Op), Transport: st.QP.String(), Size: st.Size}
	for i := range repeat {
		if i > 0 && time.Since(start) > stepTime {
			break // keep the demo short on a busy machine
		}
		st.Seed = randomPattern()
		_, n, err := d.step(ctx, st)
		if err != nil {
			return nil, err
		}
		row.Messages += st.Count
		if st.echoed() {
			row.Messages += st.Count
		}
		row.VerifiedBytes += n
	}
	return row, nil
}

func (d *Demo) progress(step string) {
	if d.Progress != nil {
		d.Progress(step)
	}
}

// on returns the side that does a step.
func (d *Demo) on(st *step) *side {
	if st.Shared {
		return d.shared
	}
	return d.side
}

// step runs one step in both processes, and verifies it in both.
func (d *Demo) step(ctx context.Context, st *step) (times []time.Duration, verified int64, err error) {
	verified, err = d.both(ctx, st, func() (err error) {
		times, err = d.on(st).measure(ctx, st)
		return err
	})
	return times, verified, err
}

// both has both processes prepare for a step, does the first one's part in it, and verifies it in both. It
// returns how many bytes arrived.
func (d *Demo) both(ctx context.Context, st *step, measure func() error) (int64, error) {
	s := d.on(st)
	if err := s.prepare(st); err != nil {
		return 0, err
	}
	if _, err := d.link.ask(ctx, message{Ask: askStep, Step: st}, s.idle); err != nil {
		return 0, err
	}
	if err := measure(); err != nil {
		return 0, err
	}
	theirs, err := d.link.ask(ctx, message{Ask: askVerify}, s.idle)
	if err != nil {
		return 0, err
	}
	ours, err := s.verify(st)
	if err != nil {
		return 0, fmt.Errorf("the first process: %w", err)
	}
	return ours + theirs.Bytes, nil
}

func randomPattern() pattern {
	var b [8]byte
	crand.Read(b[:])
	return pattern(binary.LittleEndian.Uint64(b[:]))
}
