// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/netio/baseline"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func newDemoCmd() *cobra.Command {
	var asJSON bool
	var pcap string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show RDMA between two processes of this machine, every byte verified",
		Long: "Demo starts a second process, connects the two over RoCEv2, or what --device names, on two loopback addresses,\n" +
			"and does each kind of operation with real data. Both processes compare every byte. TCP between the same\n" +
			"addresses, polled too, is measured in the same run.",
		Example: "  ramjet demo\n  ramjet demo -d iwarp",
		Args:    noArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "the results as JSON")
	device := c.Flags().StringP("device", "d", "roce", "`kind` of the devices: "+strings.Join(slices.Sorted(maps.Keys(demoKinds)), ", "))
	addPcapFlag(c, &pcap)
	return leaf(c, func(c *cobra.Command, _ []string) error {
		d := &demo{log: c.ErrOrStderr(), pcap: pcap, kind: strings.TrimSuffix(*device, ":")}
		if demoKinds[d.kind] == "" {
			return usagef("--device %s: give one of %s; the demo chooses the addresses", *device, strings.Join(slices.Sorted(maps.Keys(demoKinds)), ", "))
		}
		if err := trustThisMachine(d.kind); err != nil {
			return err
		}
		report, err := d.run(c.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), report)
		}
		return report.write(c.OutOrStdout(), isTerminal(c.OutOrStdout()))
	})
}

// demoKinds are the kinds of devices that the demo can show, as people say them.
var demoKinds = map[string]string{
	"roce":       "RoCEv2: UDP port 4791",
	"iwarp":      "iWARP: TCP",
	"iwarps":     "iWARP: inside TLS 1.3, with certificates for this run",
	"iwarp+sctp": "iWARP: over SCTP in UDP port 9899",
}

// demo is the first process's part: it starts the second one, asks and measures.
type demo struct {
	log  io.Writer // for what is no result
	pcap string
	kind string // of devices
	side *side
	pipe *pipe
}

// effort is how much the demo does.
type effort struct {
	messages int // round trips of a row
	streams  int // repetitions of a stream
	window   int // messages of a stream
}

func (d *demo) effort() effort {
	if d.pcap != "" {
		return effort{messages: 50, streams: 1, window: 4} // a file that can be read
	}
	if d.kind == "iwarp+sctp" {
		return effort{messages: 300, streams: 10, window: 4} // it is slow, and the demo is not to take long
	}
	if runtime.NumCPU() == 1 {
		return effort{messages: 100, streams: 20, window: 16} // two processes that poll take turns of milliseconds
	}
	return effort{messages: 1000, streams: 20, window: 16}
}

const (
	smallSize  = 64
	streamSize = 1 << 20
	fewStreams = 3                      // repetitions of a stream at least, for a figure
	turn       = 50                     // round trips before the clock is looked at
	stepTime   = 400 * time.Millisecond // of an operation, and of TCP beside it: no more begins after that
)

// rows are what the demo does, in order, with devices that have streams only, or all.
func (e effort) rows(streams bool) []step {
	lone := func(op verbs.SendOp, qp verbs.QPType, size int) step {
		return step{Op: op, QP: qp, Size: size, Count: min(turn, e.messages)}
	}
	stream := func(op verbs.SendOp) step {
		return step{Op: op, QP: verbs.RC, Size: streamSize, Count: e.window, Stream: true}
	}
	all := []step{
		lone(verbs.Send, verbs.RC, smallSize),
		lone(verbs.SendImm, verbs.RC, smallSize),
		lone(verbs.Write, verbs.RC, smallSize),
		lone(verbs.WriteImm, verbs.RC, smallSize),
		lone(verbs.Read, verbs.RC, smallSize),
		lone(verbs.CompareSwap, verbs.RC, 8),
		lone(verbs.FetchAdd, verbs.RC, 8),
		lone(verbs.Send, verbs.UC, smallSize),
		lone(verbs.Write, verbs.UC, smallSize),
		lone(verbs.Send, verbs.UD, smallSize),
		stream(verbs.Send),
		stream(verbs.Write),
		stream(verbs.Read),
	}
	if streams {
		all = slices.DeleteFunc(all, func(st step) bool { return st.QP != verbs.RC || st.Op == verbs.SendImm })
	}
	return all
}

// run does the demo.
func (d *demo) run(ctx context.Context) (report *demoReport, err error) {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	addrs, err := demoAddresses()
	if err != nil {
		return nil, err
	}
	dev, err := openFirst(d.kind, addrs, d.pcap, d.log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if derr := dev.done(); err == nil {
			err = derr
		}
	}()
	if d.side, err = newSide(first, dev.Device); err != nil {
		return nil, err
	}
	child, err := startPeer(ctx, cancel)
	if err != nil {
		return nil, err
	}
	d.pipe = child.pipe
	defer child.end()
	if report, err = d.talk(ctx, dev.rest); err != nil {
		return nil, child.explain(ctx, err)
	}
	report.Seconds = time.Since(start).Seconds()
	return report, nil
}

// talk connects to the second process and does all steps.
func (d *demo) talk(ctx context.Context, rest []netip.Addr) (*demoReport, error) {
	d.side.local.Candidates, d.side.local.Kind = rest, d.kind
	answer, err := d.pipe.ask(ctx, message{Ask: askHello, Hello: &d.side.local}, nil)
	if err != nil {
		return nil, err
	}
	if answer.Hello == nil {
		return nil, errors.New("the second process did not introduce itself")
	}
	if err := d.side.connect(answer.Hello); err != nil {
		return nil, err
	}
	port, err := d.side.dev.Port(1)
	if err != nil {
		return nil, err
	}
	report := &demoReport{Devices: [2]string{d.side.local.Device, answer.Hello.Device}, Over: demoKinds[d.kind], PathMTU: port.ActiveMTU.Bytes(),
		Recorded: d.pcap != ""}
	tcp := newTCPMeasure(d)
	e := d.effort()
	status := newBarLine(d.log)
	if status != nil {
		defer status.aside(func() {})
	}
	for _, st := range e.rows(d.side.streams) {
		if status != nil {
			status.show(func(int) string { return fmt.Sprintf("%s over %v, %s", opName(st.Op), st.QP, formatSize(st.Size)) })
		}
		row, err := d.row(ctx, &st, e)
		if err != nil {
			return nil, fmt.Errorf("%s over %v, %s: %w", opName(st.Op), st.QP, formatSize(st.Size), err)
		}
		if err := tcp.add(ctx, &st, row); err != nil {
			return nil, err
		}
		report.Rows = append(report.Rows, *row)
	}
	return report, nil
}

// row does one step, several times.
func (d *demo) row(ctx context.Context, st *step, e effort) (*demoRow, error) {
	start, repeat := time.Now(), e.messages/st.Count
	if st.Stream {
		repeat = e.streams
	}
	row := &demoRow{Operation: opName(st.Op), Transport: st.QP.String(), Size: st.Size}
	var times []time.Duration
	for i := range repeat {
		if i > 0 && time.Since(start) > stepTime {
			break // a busy machine: the demo is not to take long
		}
		st.Seed = randomPattern()
		t, n, err := d.step(ctx, st)
		if err != nil {
			return nil, err
		}
		times = append(times, t...)
		row.Messages += st.Count
		if st.echoed() {
			row.Messages += st.Count
		}
		row.VerifiedBytes += n
	}
	slices.Sort(times)
	median := times[len(times)/2]
	row.Disturbed = disturbed(times[0], median, st.Stream) || st.Stream && len(times) < min(fewStreams, e.streams)
	if st.Stream {
		row.BytesPerSecond = float64(st.total()) / median.Seconds()
	} else {
		row.RoundTripUs = microseconds(median)
	}
	return row, nil
}

// step does one step in both processes, and verifies it in both.
func (d *demo) step(ctx context.Context, st *step) ([]time.Duration, int64, error) {
	if err := d.side.prepare(st); err != nil {
		return nil, 0, err
	}
	if _, err := d.pipe.ask(ctx, message{Ask: askStep, Step: st}, d.side.idle); err != nil {
		return nil, 0, err
	}
	times, err := d.side.measure(ctx, st)
	if err != nil {
		return nil, 0, err
	}
	theirs, err := d.pipe.ask(ctx, message{Ask: askVerify}, d.side.idle)
	if err != nil {
		return nil, 0, err
	}
	ours, err := d.side.verify(st)
	if err != nil {
		return nil, 0, fmt.Errorf("the first process: %w", err)
	}
	return times, ours + theirs.Bytes, nil
}

// disturbed reports whether a measurement says more about who else used the processors than about
// what was measured, by the shortest and the median time. The median of small messages is some
// two times the shortest; processes that wait for a processor wait for milliseconds, which no
// round trip within a machine takes.
func disturbed(shortest, median time.Duration, stream bool) bool {
	const steady, slice = 4, time.Millisecond
	return median > steady*shortest || !stream && median >= slice
}

func randomPattern() pattern {
	var b [8]byte
	crand.Read(b[:])
	return pattern(binary.LittleEndian.Uint64(b[:]))
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// tcpMeasure measures TCP between the two processes, each size once.
type tcpMeasure struct {
	d    *demo
	kind baseline.Kind // of round trips
	had  map[baseline.Config]tcpResult
}

// tcpResult is the median of several measurements.
type tcpResult struct {
	baseline.Result
	disturbed bool
}

func newTCPMeasure(d *demo) *tcpMeasure {
	t := &tcpMeasure{d: d, kind: baseline.TCPPolled, had: make(map[baseline.Config]tcpResult)}
	if runtime.GOOS != "linux" {
		t.kind = baseline.TCPSleeping
	}
	return t
}

// add adds to a row what TCP needs for the same bytes.
func (t *tcpMeasure) add(ctx context.Context, st *step, row *demoRow) (err error) {
	e := t.d.effort()
	if !st.Stream {
		r, err := t.median(ctx, baseline.Config{Kind: t.kind, Size: st.Size, Count: e.messages, Duration: stepTime}, 1)
		row.TCPRoundTripUs, row.TCPDisturbed = microseconds(r.Median), r.disturbed
		return err
	}
	r, err := t.median(ctx, baseline.Config{Kind: baseline.TCPStream, Size: st.Size, Count: 4 * e.window, Duration: stepTime}, min(e.streams, 5))
	row.TCPBytesPerSecond, row.TCPDisturbed = r.BytesPerSecond(), r.disturbed
	return err
}

// median returns the median by elapsed time a byte of several measurements, made once a run.
func (t *tcpMeasure) median(ctx context.Context, c baseline.Config, repeat int) (tcpResult, error) {
	if r, ok := t.had[c]; ok {
		return r, nil
	}
	var results []baseline.Result
	for start := time.Now(); len(results) == 0 || len(results) < repeat && time.Since(start) < stepTime; {
		answer, err := t.d.pipe.ask(ctx, message{Ask: askTCP, TCP: &c}, nil)
		if err != nil {
			return tcpResult{}, err
		}
		r, err := baseline.Run(ctx, c, netip.AddrPortFrom(t.d.side.local.RC.GID.Addr(), 0), answer.Listen)
		if err != nil {
			return tcpResult{}, err
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b baseline.Result) int { return cmp.Compare(b.BytesPerSecond(), a.BytesPerSecond()) })
	r := tcpResult{Result: results[len(results)/2]}
	if c.Kind == baseline.TCPStream {
		perByte := func(r baseline.Result) time.Duration { return time.Duration(1e15 / r.BytesPerSecond()) } // of 1 MB
		r.disturbed = disturbed(perByte(results[0]), perByte(r.Result), true)
	} else {
		r.disturbed = disturbed(r.Min, r.Median, false)
	}
	t.had[c] = r
	return r, nil
}

// demoAddresses returns addresses that the two processes may use. On Linux all of
// 127.0.0.0/8 is local: each run takes a network of its own, so that runs do not meet.
func demoAddresses() (addrs []netip.Addr, err error) {
	if runtime.GOOS == "linux" {
		var b [2]byte
		crand.Read(b[:])
		for host := byte(1); host <= 20; host++ {
			addrs = append(addrs, netip.AddrFrom4([4]byte{127, 64 + b[0]%128, b[1], host}))
		}
		return addrs, nil
	}
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap().Is4() {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	if len(addrs) < 2 {
		return nil, usagef("the demo needs two IPv4 addresses of this host and finds %d: add one to the loopback interface, such as 127.0.0.2", len(addrs))
	}
	return addrs, nil
}

// peerProcess is the second process.
type peerProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	pipe   *pipe
}

// startPeer starts the second process. It ends when its standard input does, so also when
// this process is killed; gone is called when it ends first.
func startPeer(ctx context.Context, gone func(error)) (*peerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &peerProcess{cmd: exec.CommandContext(ctx, self, demoPeerName)}
	p.cmd.WaitDelay = time.Second
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the second process: %w", err)
	}
	p.stdin, p.pipe = in, newPipe(out, in, gone)
	return p, nil
}

// end lets the second process end and waits for that.
func (p *peerProcess) end() {
	p.stdin.Close()
	for range p.pipe.in { // until it has closed its side
	}
	p.cmd.Wait()
}

// explain adds to err what the second process has to say about it.
func (p *peerProcess) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled // interrupted: how the second process ended does not matter
	}
	p.end()
	if p.cmd.ProcessState.String() == "signal: interrupt" {
		return context.Canceled // the terminal's, which this process gets too
	}
	if errors.Is(err, errPeerGone) {
		text, _, _ := bytes.Cut(bytes.TrimSpace(p.stderr.Bytes()), []byte("\n"))
		return fmt.Errorf("%w: %s", err, cmp.Or(string(text), p.cmd.ProcessState.String()))
	}
	return err
}
