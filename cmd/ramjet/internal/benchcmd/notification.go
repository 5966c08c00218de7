// SPDX-License-Identifier: Apache-2.0

package benchcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/notification"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const notificationLong = `For each number of peers, compare three ways in which a target can learn that a peer has
written: it polls one byte per peer; peers write with immediate data, and it polls the
completion queue of one shared receive queue; the same, but it sleeps until the completion
channel has an event.

Two devices of this process are connected by one queue pair per peer. A peer chosen at
random writes a byte. Times are from just before the post until the target knows which
peer it was. A look is the processor time of one poll that finds nothing; scan is the part
of it that reads the bytes. busy is the share of a processor used while nothing arrives.
Looks that other processes disturbed have a question mark. docs/notification.md says when
to use which.`

// notificationBench is the flags of `ramjet bench notification`.
type notificationBench struct {
	config   notification.Config
	duration cli.WaitTime
	device   string
	pcap     string
	json     bool
	plots    cli.PlotFiles
}

func newBenchNotificationCmd() *cobra.Command {
	b := &notificationBench{config: notification.Config{}.WithDefaults()}
	c := &cobra.Command{
		Use:   "notification",
		Short: "Compare the ways in which a target can learn of WRITEs, by number of peers",
		Long:  notificationLong,
		Example: "  ramjet bench notification\n" +
			"  ramjet bench notification --peers 1,64,1024 -D 1s --svg notification.svg",
		Args: cli.NoArgs,
	}
	fl := c.Flags()
	fl.Var((*peerCounts)(&b.config.Peers), "peers", "`numbers` of peers to measure with, with commas between them")
	fl.IntVarP(&b.config.Iterations, "iters", "n", notification.DefaultIterations,
		"`number` of WRITEs of each way with each number of peers")
	fl.VarP(&b.duration, "duration", "D", "`time` to measure each for, instead of --iters, such as 500ms")
	fl.IntVar(&b.config.Stride, "stride", notification.DefaultStride, "`bytes` from one peer's byte to the next")
	fl.StringVarP(&b.device, "device", "d", kinds.Default().Name,
		"`kind` of the devices: "+strings.Join(kinds.Names(), ", "))
	cli.OnlyKind(c)
	cli.AddPcapFlag(c, &b.pcap, cli.EveryPacket)
	fl.BoolVar(&b.json, "json", false, "write JSON")
	b.plots.Add(c)
	return cli.Leaf(c, func(c *cobra.Command, _ []string) error { return b.run(c) })
}

// check completes the configuration from the flags.
func (b *notificationBench) check(c *cobra.Command) error {
	given := c.Flags().Changed
	switch {
	case given("duration") && given("iters"):
		return cli.Usagef("--duration and --iters exclude each other")
	case given("iters") && b.config.Iterations < 1:
		return cli.Usagef("--iters is %d: it has to be 1 or more", b.config.Iterations)
	case given("stride") && b.config.Stride < 1:
		return cli.Usagef("--stride is %d: it has to be 1 or more", b.config.Stride)
	case given("duration"):
		b.config.Iterations, b.config.Duration = 0, time.Duration(b.duration)
	}
	b.config = b.config.WithDefaults()
	if err := b.config.Check(); err != nil {
		return usage.Of(err)
	}
	return nil
}

func (b *notificationBench) run(c *cobra.Command) (err error) {
	if err := b.check(c); err != nil {
		return err
	}
	kind, err := kinds.Find(strings.TrimSuffix(b.device, ":"))
	if err != nil {
		return cli.Usagef("--device %q: give one of %s; the addresses are chosen", b.device,
			strings.Join(kinds.Names(), ", "))
	}
	if err := cli.TrustThisMachine(kind); err != nil {
		return err
	}
	if err := b.plots.Open(); err != nil {
		return err
	}
	defer b.plots.Discard()
	devices, done, err := openSpare(kind, 2, b.pcap, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() {
		if derr := done(); err == nil {
			err = derr
		}
	}()
	results, err := b.measure(c.Context(), devices[0], devices[1], c.OutOrStdout(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	return b.plots.Write(notificationCharts(results)...)
}

// openSpare opens n devices of a kind at addresses that are not in use. The first one is recorded if pcap is
// not empty: it receives all packets of the others. done closes all, and the recording.
func openSpare(kind *kinds.Kind, n int, pcap string, log io.Writer) (devices []*verbs.Device, done func() error,
	err error) {
	addresses, err := kind.Spare(n)
	if err != nil {
		return nil, nil, cli.Usagef("%d devices are needed: %w", n, err)
	}
	finish := func() error { return nil }
	done = func() error {
		for _, d := range devices {
			d.Close()
		}
		return finish()
	}
	for _, a := range addresses {
		dev, end, oerr := cli.OpenDevice(kinds.Name{Kind: kind, Address: a}.String(), pcap, log)
		if oerr != nil {
			err = oerr
			continue
		}
		if len(devices) == 0 {
			finish, pcap = end, ""
		}
		if devices = append(devices, dev); len(devices) == n {
			return devices, done, nil
		}
	}
	done()
	return nil, nil, err
}

// measure measures and writes the results as they come, or all in the end as JSON.
func (b *notificationBench) measure(ctx context.Context, client, target *verbs.Device, out,
	log io.Writer) ([]notification.Result, error) {
	line := cli.NewBarLine(log)
	observer := notification.Observer{}
	if line != nil {
		var shown time.Time
		observer.Step = func(name string, done, total int) {
			if time.Since(shown) < cli.BarPause {
				return
			}
			shown = time.Now()
			line.Show(func(width int) string { return cli.BarText(width, name, int64(done), int64(total)) })
		}
		defer line.Aside(func() {})
	}
	if !b.json {
		table := &notificationTable{out}
		table.begin(client.Name(), target.Name(), &b.config)
		observer.Result = table.row
		if line != nil {
			observer.Result = func(r notification.Result) { line.Aside(func() { table.row(r) }) }
		}
	}
	results, err := notification.Run(ctx, client, target, b.config, observer)
	if err != nil || !b.json {
		return results, err
	}
	return results, cli.WriteJSON(out, struct {
		Client  string                `json:"client"`
		Target  string                `json:"target"`
		Config  notification.Config   `json:"config"`
		Results []notification.Result `json:"results"`
	}{client.Name(), target.Name(), b.config, results}, client.Name(), target.Name())
}

// peerCounts is a flag value: numbers of peers.
type peerCounts []int

func (p *peerCounts) String() string {
	var s []string
	for _, n := range *p {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ",")
}

// Type returns the name of the value in a command's help.
func (p *peerCounts) Type() string { return "numbers" }

// Set parses text such as 1,64,4096.
func (p *peerCounts) Set(text string) error {
	var counts []int
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > notification.MaxPeers {
			return fmt.Errorf("%q is not a number of peers: give 1 to %d, and commas between several", s,
				notification.MaxPeers)
		}
		counts = append(counts, n)
	}
	*p = counts
	return nil
}
