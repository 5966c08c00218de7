// SPDX-License-Identifier: Apache-2.0

package laddercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// ladderSpan is for how long a process is watched unless --for is given.
	ladderSpan = 2 * time.Second
	// ladderAsk is the time between two questions to a process, which forgets a reader that does not ask.
	ladderAsk = time.Second
	// ladderPackets is more than a process keeps.
	ladderPackets = 1 << 16
)

// processOf returns the process that an argument names, which is no file.
func processOf(name string) (pid int, ok bool) {
	pid, err := cli.ProcessID(name)
	if err != nil {
		return 0, false
	}
	_, err = os.Lstat(name)
	return pid, errors.Is(err, os.ErrNotExist)
}

// drawProcess draws the last packets of a process.
func (f *ladderFlags) drawProcess(c *cobra.Command, pid int) error {
	name := fmt.Sprint("process ", pid)
	s, err := f.watch(c.Context(), c.ErrOrStderr(), pid)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.draw(c.OutOrStdout(), c.ErrOrStderr(), name, s)
}

// watch takes the last packets of a queue pair of a process, when --for is over or the command is interrupted.
func (f *ladderFlags) watch(ctx context.Context, log io.Writer, pid int) (*ladder.Survey, error) {
	device, qp, err := f.watched(ctx, log, pid)
	if err != nil {
		return nil, err
	}
	f.qp = "" // over iWARP, conversations have the numbers of TCP ports
	w, err := statsocket.Watch(ctx, pid, device, qp.QPN)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	end, over := time.After(time.Duration(f.span)), false
	var p *observe.Packets
	for {
		last, err := w.Last(context.WithoutCancel(ctx), ladderPackets)
		if err != nil && (p == nil || len(p.Packets) == 0) {
			return nil, err
		}
		if err != nil {
			fmt.Fprintf(log, "process %d: %v: the packets are those up to then\n", pid, err)
			break
		}
		if p = last; over {
			break
		}
		select {
		case <-time.After(ladderAsk):
		case <-end:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
	if len(p.Packets) == 0 {
		return nil, fmt.Errorf("queue pair %#x of %s has sent and received nothing in this time", qp.QPN, device)
	}
	return ladder.Take(ladder.Process(p), ladder.LimitsOf(p, ib.QPN(qp.DestQPN), qp.RetryCount, qp.RNRRetry)...)
}

// watched returns the queue pair of --qp, or the busiest one, and the name of its device.
func (f *ladderFlags) watched(ctx context.Context, log io.Writer, pid int) (device string, qp *driver.QPInfo,
	err error) {
	number, err := f.number()
	if err != nil {
		return "", nil, err
	}
	processes, err := cli.ReadProcesses(ctx, []int{pid})
	if err != nil {
		return "", nil, err
	}
	count := 0
	for _, p := range processes {
		if p.Err != nil {
			return "", nil, p.Err
		}
		for i := range p.State.Devices {
			d := &p.State.Devices[i]
			for j := range d.QPs {
				q := &d.QPs[j]
				if f.qp != "" && uint64(q.QPN) != number {
					continue
				}
				count++
				if qp == nil || packets(q) > packets(qp) {
					device, qp = d.Name, q
				}
			}
		}
	}
	switch {
	case qp == nil && f.qp != "":
		return "", nil, cli.Usagef("the process has no queue pair %s: `ramjet stat qp %d` shows those that it has", f.qp, pid)
	case qp == nil:
		return "", nil, errors.New("the process has no queue pairs")
	case count > 1:
		fmt.Fprintf(log, "process %d: queue pair %#x of %s is the busiest of %d: --qp chooses another one\n", pid, qp.QPN,
			device, count)
	}
	return device, qp, nil
}

// packets returns how much a queue pair has had to do.
func packets(q *driver.QPInfo) uint64 { return q.SentPackets + q.RecvPackets }
