// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// perfPort is perftest's.
const perfPort = 18515

// perfFlags are the flags of the commands that measure, with perftest's letters.
type perfFlags struct {
	config   perf.Config
	device   cli.DeviceFlags
	port     int
	loopback bool
	size     units.Bytesize
	all      bool
	duration cli.Seconds
	atomic   string
	conn     string
	runs     int
	json     bool
	csv      bool
	format   string // --format
	output   string // --output
	infinite bool
	hist     bool
	compare  bool
	stats    bool
	profile  string
	set      func(name string) bool // reports whether the flag was given
}

func (f *perfFlags) add(c *cobra.Command) {
	fl, cfg := c.Flags(), &f.config
	lat := cfg.Mode == perf.Latency
	fl.StringVarP(&f.device.Device, "device", "d", "",
		"`device` to open, or a kind such as iwarp: (default: that of $"+kinds.DeviceVariable+
			", or RoCEv2 on the address that reaches the other side)")
	cli.AddPcapFlag(c, &f.device.PCAP, cli.EveryPacket)
	fl.IntVarP(&f.port, "port", "p", perfPort, "TCP `port` of the control connection")
	fl.BoolVar(&f.loopback, "loopback", false, "run both sides here, on loopback addresses")
	fl.IntVarP(&cfg.Iters, "iters", "n", 0,
		"`number` of messages per queue pair, or of round trips (default 5000; 1000 for latency, READ and atomics)")
	fl.VarP(&f.duration, "duration", "D", "`time` to measure for, instead of --iters, in seconds or such as 500ms")
	fl.IntVarP(&cfg.TxDepth, "tx-depth", "t", 128, "`number` of sends that may be outstanding")
	fl.IntVarP(&cfg.MTU, "mtu", "m", 0, "path MTU in `bytes`, 256 to 4096 (default: the largest of both ports)")
	fl.BoolVarP(&cfg.Events, "events", "e", false, "sleep on completion events instead of polling")
	fl.IntVar(&f.runs, "runs", 1, "`number` of runs; medians are shown")
	fl.BoolVar(&f.json, "json", false, "write JSON")
	fl.BoolVar(&f.csv, "csv", false, "write comma-separated values, a line for each size")
	fl.StringVar(&f.format, "format", "table", "the `form` of the results: table, csv or json")
	fl.StringVar(&f.output, "output", "", "write the results into `file`; by its name .csv or .json, also in that form")
	c.MarkFlagFilename("output", "csv", "json")
	fl.BoolVar(&f.infinite, "run_infinitely", false,
		"measure again and again, each time for --duration (5s), until Ctrl-C; then show a summary")
	if lat {
		fl.BoolVar(&f.hist, "histogram", false, "client: then show the percentiles of all round trips")
	}
	fl.BoolVar(&f.compare, "compare", false, "measure the same over TCP and UDP sockets too, and show ratios")
	fl.BoolVar(&f.stats, "stats", false, "client: then show what this side's device and queue pairs have counted")
	f.profile = ""
	fl.StringVar(&f.profile, "cpuprofile", "",
		"write a CPU profile to `file`; the second process of --loopback to file.peer")
	fl.MarkHidden("cpuprofile")
	switch cfg.Op {
	case perf.FetchAdd:
		fl.StringVarP(&f.atomic, "atomic-type", "A", "FETCH_AND_ADD", "the `operation`: FETCH_AND_ADD or CMP_AND_SWAP")
	default:
		f.size = units.Bytesize(65536)
		if lat {
			f.size = 2
		}
		fl.VarP(&f.size, "size", "s", "size of a message in `bytes`, such as 64 or 1M (UD: 1024 by default)")
		fl.BoolVarP(&f.all, "all", "a", false, "all sizes from 2 bytes to 8 MiB (UD: to the path MTU)")
	}
	if cfg.Op == perf.Send || cfg.Op == perf.Write {
		services := "RC, UC or UD"
		if cfg.Op == perf.Write {
			services = "RC or UC"
		}
		fl.StringVarP(&f.conn, "connection", "c", "RC", "transport `service`: "+services)
		fl.IntVarP(&cfg.Inline, "inline-size", "I", 0,
			"post messages of up to so many `bytes` inline (default 0; 220 for latency; -1: none)")
	} else {
		fl.IntVarP(&cfg.Outstanding, "outs", "o", 16, "`number` of READs and atomics in flight")
	}
	if cfg.Op == perf.Send {
		fl.IntVarP(&cfg.RxDepth, "rx-depth", "r", 512, "`number` of receives posted")
	}
	if !lat {
		fl.IntVarP(&cfg.QPs, "qp", "q", 1, "`number` of queue pairs")
		fl.IntVarP(&cfg.PostList, "post-list", "l", 1, "`number` of work requests posted in one call")
		fl.IntVarP(&cfg.CQMod, "cq-mod", "Q", 0,
			"`number` of sends for one completion (default 64; 1 for messages of more than 8 KiB)")
		fl.BoolVarP(&cfg.Both, "bidirectional", "b", false, "both sides send; the figures are the sum")
	}
	f.set = fl.Changed
}

// configs returns the measurements that the flags select, one for each size.
func (f *perfFlags) configs() ([]perf.Config, error) {
	c := f.config
	for _, v := range []struct {
		name string
		n    int
	}{{"iters", c.Iters}, {"tx-depth", c.TxDepth}, {"rx-depth", c.RxDepth}, {"qp", c.QPs}, {"post-list", c.PostList},
		{"cq-mod", c.CQMod}, {"outs", c.Outstanding}, {"runs", f.runs}} {
		if f.set(v.name) && v.n < 1 {
			return nil, fmt.Errorf("--%s is %d: it has to be 1 or more", v.name, v.n)
		}
	}
	switch {
	case f.set("duration") && f.duration <= 0:
		return nil, errors.New("--duration has to be longer than 0")
	case f.set("duration") && f.set("iters"):
		return nil, errors.New("--duration and --iters exclude each other")
	case f.all && f.set("size"):
		return nil, errors.New("--all and --size exclude each other")
	case f.set("size") && f.size == 0:
		return nil, errors.New("--size is 0: it has to be 1 or more")
	case f.set("size") && f.size > perf.MaxSize:
		return nil, fmt.Errorf("--size is %d: it can be %s at most", f.size, units.Size(perf.MaxSize))
	case f.port < 0 || f.port > 65535:
		return nil, fmt.Errorf("--port is %d: it can be 0 to 65535", f.port)
	}
	if err := f.outputs(); err != nil {
		return nil, err
	}
	if f.infinite && !f.set("duration") {
		f.duration = cli.Seconds(5 * time.Second)
	}
	c.Duration = time.Duration(f.duration)
	c.Transport = perf.Transport(strings.ToUpper(f.conn))
	if f.atomic != "" {
		ops := map[string]perf.Op{"FETCH_AND_ADD": perf.FetchAdd, "CMP_AND_SWAP": perf.CompareSwap}
		if c.Op = ops[strings.ToUpper(f.atomic)]; c.Op == "" {
			return nil, fmt.Errorf("--atomic-type is %q: there are FETCH_AND_ADD and CMP_AND_SWAP", f.atomic)
		}
	}
	if c.TxDepth > 0 && f.set("cq-mod") && !f.set("tx-depth") {
		c.TxDepth = max(c.TxDepth, c.CQMod)
	}
	if !f.set("rx-depth") {
		c.RxDepth = 0
	}
	if f.set("size") {
		c.Size = int(f.size)
	}
	sizes := []int{c.Size}
	if f.all {
		sizes = nil
		last := 23
		if c.Transport == perf.UD {
			for last = 12; c.MTU > 0 && 1<<last > c.MTU; last-- {
			}
		}
		for i := 1; i <= last; i++ {
			sizes = append(sizes, 1<<i)
		}
	}
	var configs []perf.Config
	for _, n := range sizes {
		c.Size = n
		d := c.WithDefaults()
		if err := d.Check(); err != nil {
			return nil, err
		}
		configs = append(configs, d)
	}
	return slices.Clip(configs), nil
}

// outputs makes one choice of --json, --csv, --format and the name of the file of --output.
func (f *perfFlags) outputs() error {
	switch {
	case f.set("format") || f.output == "":
	case f.output == "table", f.output == "csv", f.output == "json":
		return fmt.Errorf("--output %s: it names a file: did you mean --format %s?", f.output, f.output)
	case filepath.Ext(f.output) == ".csv":
		f.csv = true
	case filepath.Ext(f.output) == ".json":
		f.json = true
	}
	switch f.format {
	case "table", "":
	case "csv":
		f.csv = true
	case "json":
		f.json = true
	default:
		return fmt.Errorf("--format is %q: there are table, csv and json", f.format)
	}
	switch {
	case f.json && f.csv:
		return errors.New("JSON and CSV exclude each other: choose one by --format")
	case f.csv && f.compare:
		return errors.New("--compare has no place in CSV: write JSON")
	case f.csv && f.hist:
		return errors.New("--histogram has no place in CSV: write JSON, or a table")
	case f.infinite && (f.all || f.compare || f.set("iters") || f.set("runs")):
		return errors.New("--run_infinitely excludes --all, --compare, --iters and --runs")
	}
	return nil
}
