// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"net/netip"
	"runtime"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// tcpSpeed measures TCP between the two processes, with the sizes of the WRITEs beside it.
func (d *Demo) tcpSpeed(ctx context.Context) (Speed, error) {
	kind := baseline.TCPPolled
	if runtime.GOOS != "linux" {
		kind = baseline.TCPSleeping
	}
	e := d.effort()
	r, _, err := d.tcp(ctx, baseline.Config{Kind: kind, Size: smallSize, Count: e.messages, Duration: speedTime})
	if err != nil {
		return Speed{}, err
	}
	speed := Speed{Over: TCP, Bound: "the kernel copies twice, and both programs call it for each message",
		RoundTrip: r.Median, Shortest: r.Min}
	var rates []float64
	var sum streamSum
	for range max(e.streams/2, 1) {
		r, used, err := d.tcp(ctx, baseline.Config{Kind: baseline.TCPStream, Size: streamSize, Count: e.window,
			Duration: speedTime / 4})
		if err != nil {
			return Speed{}, err
		}
		rates = append(rates, r.BytesPerSecond())
		sum.add(int64(r.Bytes), used)
	}
	slices.Sort(rates)
	speed.BytesPerSecond, speed.BestPerSecond = rates[len(rates)/2], rates[len(rates)-1]
	speed.TargetNsPerByte = sum.perByte()
	return speed, nil
}

// tcp does one measurement, and returns the processor time that it took in the second process.
func (d *Demo) tcp(ctx context.Context, c baseline.Config) (r baseline.Result, used processorTime, err error) {
	answer, err := d.link.ask(ctx, message{Ask: askTCP, TCP: &c}, nil)
	if err != nil {
		return r, used, err
	}
	before := d.peer.processorTime()
	r, err = baseline.Run(ctx, c, netip.AddrPortFrom(d.side.tcpAddress(), 0), answer.Listen)
	return r, d.peer.processorTime().since(before), err
}
