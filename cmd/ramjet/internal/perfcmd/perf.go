// SPDX-License-Identifier: Apache-2.0

// Package perfcmd is `ramjet perf`: latency and bandwidth as perftest measures them.
package perfcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const perfLong = `Measure bandwidth or latency between two processes, as perftest's programs do.

On one machine:      ramjet perf send bw --loopback
On two, the first:   ramjet perf send bw
    and the second:  ramjet perf send bw HOST

The side with HOST (or --loopback) is the client: its flags decide for both. The control
connection is TCP on --port; the devices are those of the addresses that it connects.
MB/sec are 2^20 bytes a second. The time of SEND and WRITE is half a round trip, that of
READ and atomics a whole one; --compare compares whole round trips.`

// New returns `ramjet perf`.
func New() *cobra.Command {
	c := cli.Group("perf", "Measure bandwidth and latency, in perftest's columns",
		newPerfOpCmd("send", "SEND", perf.Send),
		newPerfOpCmd("write", "RDMA WRITE", perf.Write),
		newPerfOpCmd("read", "RDMA READ", perf.Read),
		newPerfOpCmd("atomic", "fetch-and-add or compare-and-swap", perf.FetchAdd),
		newPerfTableCmd(), newPerfPeerCmd())
	c.Long = perfLong
	return c
}

func newPerfOpCmd(use, what string, op perf.Op) *cobra.Command {
	c := cli.Group(use, "Measure "+what, newPerfModeCmd(use, what, op, perf.Bandwidth),
		newPerfModeCmd(use, what, op, perf.Latency))
	c.Long = perfLong
	return c
}

func newPerfModeCmd(verb, what string, op perf.Op, mode perf.Mode) *cobra.Command {
	f := &perfFlags{config: perf.Config{Op: op, Mode: mode}}
	short := map[perf.Mode]string{perf.Bandwidth: "bandwidth", perf.Latency: "latency"}[mode]
	c := &cobra.Command{Use: string(mode) + " [HOST]", Short: "Measure the " + short + " of " + what, Long: perfLong,
		Args: cli.Arguments(0, 1)}
	name := "  ramjet perf " + verb + " " + string(mode)
	c.Example = name + " --loopback\n" + name + "                            # the server\n" + name +
		" 192.0.2.7 -d iwarp: -D 2s    # its client"
	f.add(c)
	return cli.Leaf(c, func(c *cobra.Command, args []string) (failed error) {
		configs, err := f.configs()
		if err != nil {
			return usage.Of(err)
		}
		stop, err := startProfile(f.profile)
		if err != nil {
			return err
		}
		defer stop()
		if f.output != "" {
			file, err := os.Create(f.output)
			if err != nil {
				return cli.Usagef("--output: %w: give a file that can be written", err)
			}
			defer func() { failed = errors.Join(failed, file.Close()) }()
			c.SetOut(file)
		}
		switch {
		case len(args) == 1 && f.loopback:
			return cli.Usagef("--loopback and a host exclude each other: with --loopback both sides run here")
		case len(args) == 1:
			host, err := cli.TakePort(args[0], &f.port, c.Flags().Changed("port"))
			if err != nil {
				return err
			}
			return f.client(c, configs, net.JoinHostPort(host, strconv.Itoa(f.port)), f.localFor(c.Context(), host))
		case f.loopback:
			return f.both(c, configs)
		}
		return f.server(c)
	})
}

// perfDevice is the device of one side, with the objects that have to be closed.
type perfDevice struct {
	flags  cli.DeviceFlags
	log    io.Writer
	finish func() error
}

// open opens the device of the flags, or that of an address, with the kind and options of the
// flags.
func (d *perfDevice) open(local netip.Addr) (*verbs.Device, error) {
	name := d.flags.Device
	if d.flags.KindOnly() {
		kind, options, err := d.flags.Kind()
		if err != nil {
			return nil, usage.Of(err)
		}
		switch {
		case kind.Soft:
			name = kind.Name + ":" + options // an adapter that is not in use
		case kind.Hardware:
			if name, err = d.ofKernel(kind, local); err != nil {
				return nil, err
			}
		default:
			name = kind.NameAt(local.String()).String() + options
		}
	}
	dev, done, err := cli.OpenDevice(name, d.flags.PCAP, d.log)
	if err != nil {
		return nil, err
	}
	d.finish = done
	return dev, nil
}

// ofKernel returns the name of the kernel's device from which an address leads to others.
func (d *perfDevice) ofKernel(kind *kinds.Kind, local netip.Addr) (string, error) {
	n, why, err := kinds.Name{Kind: kind}.On(local)
	if err != nil {
		return "", usage.Of(err)
	}
	if why != "" {
		fmt.Fprintln(d.log, why)
	}
	return n.String(), nil
}

// close closes the objects that open has opened. err is an earlier error.
func (d *perfDevice) close(err error) error {
	if d.finish == nil {
		return err
	}
	if ferr := d.finish(); err == nil {
		err = ferr
	}
	return err
}

// localFor returns the address to connect from; the zero address leaves it to the system. Two
// devices of one machine cannot share an address, so a loopback host is dialed from another one.
func (f *perfFlags) localFor(ctx context.Context, host string) netip.Addr {
	if n, err := kinds.Parse(f.device.Device); err == nil && !n.Kind.Soft {
		if a, ok := n.IP(); ok {
			return a
		}
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) > 0 && addrs[0].Unmap().Is4() && addrs[0].IsLoopback() {
		return perf.LoopbackAddress()
	}
	return netip.Addr{}
}

// both runs the client here and the server in a second process.
func (f *perfFlags) both(c *cobra.Command, configs []perf.Config) (err error) {
	local := f.localFor(c.Context(), "127.0.0.1")
	if local.Unmap().Is6() {
		return cli.Usagef("--loopback needs a device of an IPv4 address, not %v, or a kind such as iwarp:, as the other side's is one", local)
	}
	kind, options, err := f.device.Kind()
	if err != nil {
		return usage.Of(err)
	}
	if kind.Link {
		return cli.Usagef("--loopback takes devices of loopback addresses, and those of kind %s are of Ethernet interfaces: run both sides, each with -d and its interface", kind.Name)
	}
	if kind.Hardware {
		return cli.Usagef("--loopback makes devices of loopback addresses, and there are none of kind %s: run both sides, each with -d and its device", kind.Name)
	}
	if err := cli.TrustThisMachine(kind); err != nil {
		return err
	}
	peer, err := startPerfPeer(c.ErrOrStderr(), f.profile, kind.Name+":"+options)
	if err != nil {
		return err
	}
	defer func() {
		if perr := peer.Close(); err == nil && c.Context().Err() == nil {
			err = perr
		}
	}()
	return f.client(c, configs, peer.Address, local)
}

// client measures against the server at address.
func (f *perfFlags) client(c *cobra.Command, configs []perf.Config, address string, local netip.Addr) (err error) {
	d := &perfDevice{flags: f.device, log: c.ErrOrStderr()}
	defer func() { err = d.close(err) }()
	client, err := perf.Dial(c.Context(), address, local, perf.Options{Open: d.open})
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return cli.Usagef("%v is not an address of this host: `ramjet devices` lists those that can be opened",
				local)
		}
		return cli.ControlError(err, c.CommandPath())
	}
	defer client.Close()
	out := newPerfOutput(c.OutOrStdout(), f, client)
	if f.infinite {
		return f.endless(c.Context(), client, configs[0], out)
	}
	for _, cfg := range configs {
		row, err := f.measure(c.Context(), client, cfg, c.ErrOrStderr())
		if err != nil {
			return err
		}
		out.row(row)
	}
	if err := out.end(); err != nil || !f.stats {
		return err
	}
	return writeStats(c.ErrOrStderr(), client.Device(), out.lastQPs())
}

// server waits for one client and runs its measurements.
func (f *perfFlags) server(c *cobra.Command) (err error) {
	d := &perfDevice{flags: f.device, log: c.ErrOrStderr()}
	defer func() { err = d.close(err) }()
	opt := perf.Options{Open: d.open, Accept: f.accept}
	if err := f.device.Recordable(); err != nil {
		return err
	}
	var host string
	if !f.device.KindOnly() { // report a wrong name at once
		if opt.Device, err = d.open(netip.Addr{}); err != nil {
			return err
		}
		if a := f.localFor(c.Context(), ""); a.IsValid() {
			host = a.String()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(f.port)))
	if err != nil {
		return cli.Usagef("%w: --port chooses another", err)
	}
	defer l.Close()
	defer context.AfterFunc(c.Context(), func() { l.Close() })()
	fmt.Fprintf(c.ErrOrStderr(),
		"waiting on port %d for: %s HOST (to run both sides here, stop this and add --loopback)\n",
		l.Addr().(*net.TCPAddr).Port, c.CommandPath())
	conn, err := l.Accept()
	if err != nil {
		return errors.Join(c.Context().Err(), err)
	}
	l.Close()
	out := newPerfOutput(c.OutOrStdout(), f, nil)
	opt.Notice = func(r *perf.Result) {
		out.row(newPerfRow([]*perf.Result{r}))
		if !f.json {
			out.rows = out.rows[:1] // which the heading is of: a client may measure without end
		}
	}
	if err := perf.Serve(c.Context(), conn, opt); err != nil {
		return err
	}
	return out.end()
}

// accept rejects clients of another command.
func (f *perfFlags) accept(c perf.Config) error {
	same := c.Op == f.config.Op || c.Op == perf.CompareSwap && f.config.Op == perf.FetchAdd
	if !same || c.Mode != f.config.Mode {
		return fmt.Errorf("it measures %v %s, not %v %s: start the same command there", f.config.Op, f.config.Mode,
			c.Op, c.Mode)
	}
	return nil
}

// perfPeerName is the hidden command of the second process.
const perfPeerName = "peer"

func newPerfPeerCmd() *cobra.Command {
	c := &cobra.Command{Use: perfPeerName, Short: "The second process of --loopback", Hidden: true, Args: cobra.NoArgs}
	profile := addProfileFlag(c)
	kind := c.Flags().String("device", "", "kind of device, with a colon, and options")
	return cli.Leaf(c, func(c *cobra.Command, _ []string) error {
		signal.Ignore(os.Interrupt) // the first process decides when to end
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		defer stop()
		d := &perfDevice{flags: cli.DeviceFlags{Device: *kind}, log: io.Discard}
		return perf.RunPeer(context.WithoutCancel(c.Context()), perf.LoopbackAddress(), perf.Options{Open: d.open},
			c.InOrStdin(), c.OutOrStdout())
	})
}

// startPerfPeer starts the second process, with a kind of device and its options. profile is the
// first process's.
func startPerfPeer(stderr io.Writer, profile, device string) (*perf.Peer, error) {
	exe, err := cli.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"perf", perfPeerName, "--device", device}
	if profile != "" {
		args = append(args, "--cpuprofile", profile+".peer")
	}
	cmd := exec.Command(exe, args...)
	cmd.Stderr = stderr
	return perf.StartPeer(cmd)
}

// addProfileFlag adds --cpuprofile, for developers of this project.
func addProfileFlag(c *cobra.Command) *string {
	file := c.Flags().String("cpuprofile", "", "write a CPU profile to `file`; the second process to file.peer")
	c.Flags().MarkHidden("cpuprofile")
	return file
}

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, cli.Usagef("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}
